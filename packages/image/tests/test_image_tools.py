import pytest

from image.errors import ToolError
from image.tools import run


def test_a_tool_gives_what_it_wrote():
    assert run("copying", ["cat"], 10, b"through") == b"through"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo no space left >&2; exit 3"], "failed with exit code 3.*:\nno space left"),
        (["sleep", "5"], "within 1 s"),
        (["nonsense"], "program nonsense"),
    ],
)
def test_errors_of_a_tool(command, said):
    with pytest.raises(ToolError, match=f"unpacking .*{said}"):
        run("unpacking", command, 1)
