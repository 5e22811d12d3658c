"""The generated pages say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ccm.hetzner.load_balancers.wishes.reference import reference

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    written = (REFERENCE / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run: python docs/reference/generate.py"


def test_the_page_of_annotations_is_what_their_table_says() -> None:
    written = (REFERENCE / "annotations.md").read_text(encoding="utf-8")
    assert written == reference(), (
        "run: python -m ccm.hetzner.load_balancers.wishes.reference > docs/reference/annotations.md"
    )
