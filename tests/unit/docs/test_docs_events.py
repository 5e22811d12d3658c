"""The page of Events has those that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

TREE = Path(__file__).parents[3]
PAGE = TREE / "docs" / "reference" / "events.md"
# Those about Services are documented elsewhere.
SOURCES = (
    *(TREE / "ccm" / "controllers").glob("*.py"),
    *(TREE / "ccm" / "hetzner").glob("*.py"),
    *(TREE / "ccm" / "hetzner" / "robot").glob("*.py"),
    TREE / "ccm" / "kube" / "lease.py",
)
REASON = re.compile(
    r"""(?:"(?:Normal|Warning)",\s*   # recorder.event(about, type, reason, ...)
    |Notice\(\s*
    |_warn\([\w.]+,\s*
    |^REASON\s=\s)"([A-Z]\w+)\"""",
    re.VERBOSE | re.MULTILINE,
)


def test_every_reason_is_explained() -> None:
    used = {reason for source in SOURCES for reason in REASON.findall(source.read_text(encoding="utf-8"))}
    rows = [
        line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    explained = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert len(used) > 10
    assert explained == used
