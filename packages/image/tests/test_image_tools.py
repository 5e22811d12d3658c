from __future__ import annotations

import pytest

from image.errors import ToolError
from image.tools import run


def test_a_tool_gives_what_it_wrote():
    assert run("copying", ["cat"], 10, b"through") == b"through"


def test_a_tool_that_fails_shows_its_last_lines():
    with pytest.raises(ToolError, match="unpacking failed with code 3; its last lines:\nno space left"):
        run("unpacking", ["sh", "-c", "echo no space left >&2; exit 3"], 10)


def test_a_tool_that_hangs_is_ended():
    with pytest.raises(ToolError, match="took more than"):
        run("unpacking", ["sleep", "5"], 0.1)


def test_a_tool_that_is_not_there():
    with pytest.raises(ToolError, match="there is no program nonsense"):
        run("unpacking", ["nonsense"], 1)
