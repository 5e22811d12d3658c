import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from ccm.hetzner.load_balancers.desired.target_choice import _WHY

TREE = Path(__file__).parents[3]
CCM = TREE / "ccm"
SOURCES = {
    "events.md": (
        *(CCM / "controllers").glob("*.py"),
        *(path for path in (CCM / "hetzner").rglob("*.py") if "load_balancers" not in path.parts),
        CCM / "kube" / "lease.py",
    ),
    "events-of-services.md": (
        *(CCM / "controllers" / "service").glob("*.py"),
        *(CCM / "hetzner" / "load_balancers").rglob("*.py"),
    ),
}
OFFICIAL = {
    "ClusterCIDRMisconfigured",
    "InstanceLookupFailed",
    "InternalIPNotConfigured",
    "LoadBalancerTypeDeprecated",
    "LoadBalancerTypeUnconfigured",
    "MaxTargetsReached",
    "MisconfiguredInternalIP",
    "PossibleNodeDeletion",
    "ServerNotFound",
    "UnknownProviderIDPrefix",
    "UnsupportedProtocolConfigured",
}
"""Tools match on them; those of v1.35.0, beside those of Kubernetes' own library."""
REASON = re.compile(
    r"""(?:"(?:Normal|Warning)",\s*   # recorder.event(about, type, reason, ...)
    |Notice\(\s*
    |(?:_warn|report_normal|report_warning|_report_failure)\(\s*[\w.]+,\s*
    |^REASON\s=\s)"([A-Z]\w+)\"""",
    re.VERBOSE | re.MULTILINE,
)


def first_cells(page: str) -> list[str]:
    lines = (TREE / "docs" / "reference" / page).read_text(encoding="utf-8").splitlines()
    return [line.split("|")[1] for line in lines if line.startswith("| `")]


def reasons_in(cells: Iterable[str]) -> set[str]:
    return {reason for cell in cells for reason in re.findall(r"`(\w+)`", cell)}


def explained_on(*pages: str) -> set[str]:
    """The reasons in the first columns of the pages' tables."""
    return {reason for page in pages for reason in reasons_in(first_cells(page))}


@pytest.mark.parametrize(("page", "more"), [("events.md", set()), ("events-of-services.md", set(_WHY))])
def test_every_reason_is_explained(page: str, more: set[str]) -> None:
    used = {one for path in SOURCES[page] for one in REASON.findall(path.read_text(encoding="utf-8"))}
    assert len(used) > 10
    assert explained_on(page) == used | more


def test_the_guide_says_what_became_of_each_official_reason() -> None:
    guide = (TREE / "docs" / "guides" / "from-the-official-ccm.md").read_text()
    assert {one for one in OFFICIAL - explained_on(*SOURCES) if f"`{one}`" not in guide} == set()


def test_each_official_reason_is_marked_as_one_and_no_other() -> None:
    marked = reasons_in(cell for page in SOURCES for cell in first_cells(page) if "(official)" in cell)
    assert marked == OFFICIAL & explained_on(*SOURCES)
