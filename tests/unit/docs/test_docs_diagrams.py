import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

DOCS = Path(__file__).parents[3] / "docs"
FOLDER = DOCS / "diagrams"
SOURCES = sorted(FOLDER.glob("*.dot"))
PAGES = [*DOCS.parent.glob("*.md"), *DOCS.glob("**/*.md")]

_specification = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
assert _specification is not None
assert _specification.loader is not None
draw = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(draw)

each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


@each_source
def test_a_diagram_is_drawn_of_its_source(source: Path) -> None:
    svg = source.with_suffix(".svg").read_text(encoding="utf-8")
    assert draw.mark(source.read_text(encoding="utf-8")) in svg, "run: python docs/diagrams/draw.py"
    ET.fromstring(svg)
    assert "prefers-color-scheme" in svg
    assert not re.search(r"(href|src)=", svg)


def test_there_is_no_diagram_without_a_source() -> None:
    assert {svg.stem for svg in FOLDER.glob("*.svg")} == {source.stem for source in SOURCES}


def test_every_picture_is_shown_with_its_words() -> None:
    shown: set[Path] = set()
    for page in PAGES:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(words) > 30, f"{page.name}: {target}"
            shown.add((page.parent / target).resolve())
    assert {path for path in (FOLDER.parent).glob("*/*") if path.suffix in {".svg", ".png"}} == shown
