"""The page of Events has those that there are, and no others."""

import re

from event_pages import TREE, explained_on, marked_on, used_in

# Those about Services are documented elsewhere.
SOURCES = (
    *(TREE / "ccm" / "controllers").glob("*.py"),
    *(path for path in (TREE / "ccm" / "hetzner").rglob("*.py") if "load_balancers" not in path.parts),
    TREE / "ccm" / "kube" / "lease.py",
)
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
    |_warn\([\w.]+,\s*
    |^REASON\s=\s)"([A-Z]\w+)\"""",
    re.VERBOSE | re.MULTILINE,
)


def test_every_reason_is_explained() -> None:
    used = used_in(SOURCES, REASON)
    assert len(used) > 10
    assert explained_on("events.md") == used


def test_the_guide_says_what_became_of_each_official_reason() -> None:
    missing = OFFICIAL - explained_on("events.md") - explained_on("events-of-services.md")
    guide = (TREE / "docs" / "guides" / "from-the-official-ccm.md").read_text()
    assert {one for one in missing if f"`{one}`" not in guide} == set()


def test_each_official_reason_is_marked_as_one_and_no_other() -> None:
    pages = ("events.md", "events-of-services.md")
    marked = set[str]().union(*(marked_on(page, "official") for page in pages))
    assert marked == OFFICIAL & set[str]().union(*(explained_on(page) for page in pages))
