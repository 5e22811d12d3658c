"""The page of Events has those that there are, and no others."""

from __future__ import annotations

import re

from event_pages import TREE, explained_on, used_in

# Those about Services are documented elsewhere.
SOURCES = (
    *(TREE / "ccm" / "controllers").glob("*.py"),
    *(path for path in (TREE / "ccm" / "hetzner").rglob("*.py") if "load_balancers" not in path.parts),
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
    used = used_in(SOURCES, REASON)
    assert len(used) > 10
    assert explained_on("events.md") == used
