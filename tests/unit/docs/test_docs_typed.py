"""What tests/e2e/test_documents.py knows of the pages' commands is in the pages."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TREE
from tests.e2e.documents import typed_in
from tests.e2e.test_documents import GOES_ON, NOT_RUN, PAGES, SAYS, UNTIL, why_not

LINES = [line for page in PAGES for line in typed_in((TREE / page).read_text(encoding="utf-8"))]


def test_command_lines_are_found_with_their_comments() -> None:
    page = "x\n```sh\na \\\n  b   # why\n\nc '#d'\n```\n   ```sh\n   e\n   ```\n```\nno\n```\n"
    assert [(line.text, line.comment) for line in typed_in(page)] == [
        ("a    b", "why"),
        ("c '#d'", ""),
        ("e", ""),
    ]


ELSEWHERE = {
    "docs/guides/testing-with-the-emulator.md": "tests/packages, without a clone",
    "docs/guides/components.md": "tests/packages, without a clone",
}


def test_every_page_with_commands_is_run() -> None:
    folders = [TREE / "README.md", *TREE.glob("docs/tutorial/*.md"), *TREE.glob("docs/guides/*.md")]
    assert {str(page.relative_to(TREE)) for page in folders if typed_in(page.read_text())} == {
        *PAGES,
        *ELSEWHERE,
    }


@pytest.mark.parametrize("text", [*NOT_RUN, *GOES_ON, *SAYS])
def test_no_exception_outlives_its_command(text: str) -> None:
    assert any(text in line.text for line in LINES)


def test_every_command_that_is_watched_says_until_when() -> None:
    watched = {line.comment for line in LINES if line.text.endswith(" -w")}
    assert watched == UNTIL.keys()


def test_most_commands_run() -> None:
    assert sum(not why_not(line) for line in LINES) > 0.7 * len(LINES)
