"""The page of Events about Services has those that there are, and no others."""

import re

from event_pages import TREE, explained_on, used_in

from ccm.hetzner.load_balancers.desired.target_choice import _WHY

SOURCES = (
    *(TREE / "ccm" / "controllers" / "service").glob("*.py"),
    *(TREE / "ccm" / "hetzner" / "load_balancers").rglob("*.py"),
)
REASON = re.compile(
    r"""(?:"(?:Normal|Warning)",\s*   # recorder.event(about, type, reason, ...)
    |Notice\(\s*
    |(?:report_normal|report_warning|_report_failure)\(\s*[\w.]+,\s*)"([A-Z]\w+)\"""",
    re.VERBOSE,
)


def test_every_reason_is_explained() -> None:
    used = used_in(SOURCES, REASON)
    assert len(used) > 20
    assert explained_on("events-of-services.md") == used | _WHY.keys()
