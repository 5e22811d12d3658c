"""What `./dev image` refuses before it builds anything."""

from pathlib import Path

import pytest

from sandbox.commands import image
from sandbox.dev import parse
from sandbox.errors import SandboxError
from sandbox.site import open_clone


@pytest.mark.parametrize("text", ["", ".", "/"])
def test_an_invalid_output(text: str, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        parse(["image", "--output", text])
    assert left.value.code == 2
    assert f"argument --output: {text!r}" in capsys.readouterr().err


def test_an_empty_name(tmp_path: Path) -> None:
    _, arguments = parse(["image", "--push", ""])
    with pytest.raises(SandboxError, match="'' isn't REGISTRY/NAME:TAG"):
        image.run(open_clone(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}), arguments)
