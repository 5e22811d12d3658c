"""Draws this folder's pictures: ``python docs/diagrams/draw.py`` makes an SVG of every ``.dot`` file.

It needs Graphviz (Debian: ``apt-get install graphviz``). A test notices a file that has changed since.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_SETTINGS = (
    *("-Gbgcolor=transparent", "-Gfontname=sans-serif", "-Gfontsize=13", "-Gstyle=rounded", "-Gpad=0.1"),
    *("-Nshape=box", "-Nstyle=rounded", "-Nfontname=sans-serif", "-Nfontsize=13", "-Nmargin=0.16,0.09"),
    *("-Efontname=sans-serif", "-Efontsize=11", "-Earrowsize=0.7"),
)
# An SVG in a page has no other way to follow its reader's choice of light or dark.
_STYLE = """<style>
text { fill: #1b2430 }
.node path, .node polygon { stroke: #4a6078; fill: #f2f6fa }
.ours path, .ours polygon { stroke: #b3261e; fill: #fdf1ef }
.cluster path { stroke: #8fa1b5; fill: none }
.edge path { stroke: #4a6078; fill: none }
.edge polygon { stroke: #4a6078; fill: #4a6078 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .node path, .node polygon { stroke: #8fb3d9; fill: #16202b }
  .ours path, .ours polygon { stroke: #ff9d94; fill: #2c1816 }
  .cluster path { stroke: #5d7288 }
  .edge path { stroke: #8fb3d9; fill: none }
  .edge polygon { stroke: #8fb3d9; fill: #8fb3d9 }
}
</style>"""


def main() -> int:
    """Draw all; returns an exit code."""
    for source in sorted(HERE.glob("*.dot")):
        target = source.with_suffix(".svg")
        target.write_text(drawn(source.read_text(encoding="utf-8")), encoding="utf-8")
        print(target.name)
    return 0


def drawn(text: str) -> str:
    """An SVG of what is written in Graphviz's language.

    Args:
        text: The source, whose mark goes into the picture.

    Raises:
        subprocess.CalledProcessError: Graphviz does not understand it.
    """
    svg = subprocess.run(
        ["dot", "-Tsvg", *_SETTINGS], input=text, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    svg = re.sub(r"<\?xml.*?(?=<svg)", "", svg, flags=re.DOTALL)  # with the version of Graphviz
    svg = re.sub(r'width="(\d+)pt" height="(\d+)pt"', r'width="\1" height="\2"', svg, count=1)
    return re.sub(r"(<svg.*?>)", rf"\1\n<!-- {mark(text)} -->\n{_STYLE}", svg, count=1, flags=re.DOTALL)


def mark(text: str) -> str:
    """What tells of which source, drawn how, a picture is.

    Args:
        text: The source.
    """
    return "made by draw.py of " + hashlib.sha256((text + _STYLE + repr(_SETTINGS)).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
