import os
from pathlib import Path

import pytest

from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory
from sandbox.testing import prose

ROOT = Path(__file__).parents[3]
SOURCE = '''"""A docstring of a module isn't a message."""
def f(name):
    """Neither is one of a function, however long it is."""
    short = "too few words"
    raise ValueError(
        f"the server {name} could not be drained in time"
    )
'''


def test_messages_stay_on_their_lines():
    lines = prose.message_lines(SOURCE).split("\n\n")
    assert [(number, line) for number, line in enumerate(lines, 1) if line] == [
        (6, "the server X could not be drained in time")
    ]


@pytest.fixture(scope="module")
def vale():
    found = toolchain.find(cache_directory(os.environ), [prose.VALE])
    if found is None:
        pytest.skip("Vale has not been built: ./dev test lint")
    return found.bin / "vale"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The server is created anew.", "Words"),
        ("It is no server of this cluster.", "IsNo"),
        ("Who asks for metrics needs a token.", "Subjects"),
        ("Is the server gone, it deletes the Node.", "Inversion"),
        ("- " + "word " * 41, "Items"),
        ("The page has words. " * 23, "Paragraphs"),
        ("There is no server, and no longer a need for one. Who is the leader?", ""),
    ],
)
def test_a_rule_rejects_what_it_is_for(vale: Path, tmp_path: Path, text: str, rule: str):
    (tmp_path / "page.md").write_text(f"# What happens\n\n{text}\n")
    found = prose.run_vale(vale, ROOT, tmp_path, ["page.md"])
    assert [line.split(":")[3] for line in found.splitlines()] == ([f"Plain.{rule}"] if rule else [])
