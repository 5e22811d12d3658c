"""Which tests judge which module: the pure parts of the CCM, and the fewest tests that should hold each."""

from __future__ import annotations

_KUBE = "tests/unit/kube/test_kube_"
_CONTROLLERS = "tests/unit/controllers/test_"
_HETZNER = "tests/unit/hetzner/test_hetzner_"
_BALANCERS = "tests/unit/hetzner_load_balancers/test_"
_OF_TARGETS = (f"{_BALANCERS}targets.py", f"{_BALANCERS}desire_properties.py")

JUDGES: dict[str, tuple[str, ...]] = {
    "ccm/controllers/addresses.py": (f"{_CONTROLLERS}node_addresses.py",),
    "ccm/controllers/labels.py": (f"{_CONTROLLERS}node_labels.py",),
    "ccm/controllers/mass_deletion_breaker.py": (f"{_CONTROLLERS}mass_deletion_breaker.py",),
    "ccm/controllers/route_plan.py": (f"{_CONTROLLERS}route_plan.py",),
    "ccm/hetzner/api/budget.py": (f"{_HETZNER}budget.py",),
    "ccm/hetzner/load_balancers/facts/ownership.py": (f"{_BALANCERS}locate.py",),
    "ccm/hetzner/load_balancers/facts/targets.py": _OF_TARGETS,
    "ccm/hetzner/load_balancers/labels.py": (f"{_BALANCERS}locate.py",),
    "ccm/hetzner/provider_id.py": (f"{_HETZNER}provider_id.py",),
    "ccm/ip.py": (f"{_KUBE}ip.py",),
    "ccm/kube/lease.py": (f"{_KUBE}lease.py",),
    "ccm/kube/queue.py": (f"{_KUBE}queue.py",),
    "ccm/kube/ratelimit.py": (f"{_KUBE}ratelimit.py",),
}
