"""The page of Events about Services has those that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from ccm.hetzner.load_balancers.targets import _WHY

TREE = Path(__file__).parents[3]
PAGE = TREE / "docs" / "reference" / "events-of-services.md"
SOURCES = (
    *(TREE / "ccm" / "controllers" / "service").glob("*.py"),
    *(TREE / "ccm" / "hetzner" / "load_balancers").glob("*.py"),
)
REASON = re.compile(
    r"""(?:"(?:Normal|Warning)",\s*   # recorder.event(about, type, reason, ...)
    |Notice\(\s*
    |(?:tell|warn|failing_as)\([\w.]+,\s*)"([A-Z]\w+)\"""",
    re.VERBOSE,
)


def test_every_reason_is_explained() -> None:
    used = {reason for source in SOURCES for reason in REASON.findall(source.read_text(encoding="utf-8"))}
    rows = [
        line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    explained = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert len(used) > 20
    assert explained == used | _WHY.keys()
