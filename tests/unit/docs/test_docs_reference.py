import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    written = (REFERENCE / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run: python docs/reference/generate.py"
