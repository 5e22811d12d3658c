"""Which tests judge which module: the pure parts of the CCM, and the fewest tests that should hold each."""

_KUBE = "tests/unit/kube/test_kube_"
_CONTROLLERS = "tests/unit/controllers/test_"
_HETZNER = "tests/unit/hetzner/test_hetzner_"
_BALANCERS = "tests/unit/load_balancers/test_"
_OF_TARGETS = (f"{_BALANCERS}targets.py", f"{_BALANCERS}desire_properties.py")
_OF_CHANGES = (
    f"{_BALANCERS}changes.py",
    f"{_BALANCERS}steps.py",
    f"{_BALANCERS}plan_properties.py",
)
_OF_SPEC = (f"{_BALANCERS}spec.py",)

JUDGES: dict[str, tuple[str, ...]] = {
    "ccm/controllers/node_addresses.py": (f"{_CONTROLLERS}node_addresses.py",),
    "ccm/controllers/label_changes.py": (f"{_CONTROLLERS}label_changes.py",),
    "ccm/controllers/mass_deletion_breaker.py": (f"{_CONTROLLERS}mass_deletion_breaker.py",),
    "ccm/controllers/route_plan.py": (f"{_CONTROLLERS}route_plan.py",),
    "ccm/hetzner/api/budget.py": (f"{_HETZNER}budget.py",),
    "ccm/hetzner/load_balancers/service_annotations.py": (
        *_OF_SPEC,
        f"{_BALANCERS}annotation_bounds.py",
        f"{_BALANCERS}values.py",
    ),
    "ccm/hetzner/load_balancers/desired/certificate_choice.py": (f"{_BALANCERS}desired_certificates.py",),
    "ccm/hetzner/load_balancers/desired/decision.py": (f"{_BALANCERS}decide.py",),
    "ccm/hetzner/load_balancers/desired/annotated_settings.py": (f"{_BALANCERS}desired_settings.py",),
    "ccm/hetzner/load_balancers/desired/listener_choice.py": (
        f"{_BALANCERS}desired_listeners.py",
        f"{_BALANCERS}desired_settings.py",
    ),
    "ccm/hetzner/load_balancers/desired/location_choice.py": (f"{_BALANCERS}desired_site.py",),
    "ccm/hetzner/load_balancers/desired/target_choice.py": (f"{_BALANCERS}desired_targets.py",),
    "ccm/hetzner/load_balancers/observed/ownership.py": (f"{_BALANCERS}locate.py",),
    "ccm/hetzner/load_balancers/ownership_labels.py": (
        f"{_BALANCERS}desired_settings.py",
        f"{_BALANCERS}plan_release.py",
        f"{_BALANCERS}locate.py",
    ),
    "ccm/hetzner/load_balancers/plan/steps.py": (f"{_BALANCERS}lifecycle.py",),
    "ccm/hetzner/load_balancers/plan/listener_changes.py": _OF_CHANGES,
    "ccm/hetzner/load_balancers/plan/planner.py": (
        f"{_BALANCERS}lifecycle.py",
        f"{_BALANCERS}changes.py",
        f"{_BALANCERS}plan_release.py",
    ),
    "ccm/hetzner/load_balancers/plan/setting_changes.py": _OF_CHANGES,
    "ccm/hetzner/load_balancers/plan/target_changes.py": _OF_CHANGES,
    "ccm/hetzner/load_balancers/targets.py": _OF_TARGETS,
    "ccm/hetzner/load_balancers/spec/load_balancer_spec.py": (*_OF_SPEC, f"{_BALANCERS}annotation_bounds.py"),
    "ccm/hetzner/load_balancers/spec/official_format.py": (f"{_BALANCERS}hccm_comparison.py",),
    "ccm/hetzner/load_balancers/spec/selector.py": (f"{_BALANCERS}selector.py",),
    "ccm/hetzner/load_balancers/spec/annotation_table.py": (
        f"{_BALANCERS}reference.py",
        f"{_BALANCERS}steps.py",
    ),
    "ccm/hetzner/load_balancers/spec/validation.py": _OF_SPEC,
    "ccm/hetzner/load_balancers/spec/values.py": (f"{_BALANCERS}values.py",),
    "ccm/hetzner/provider_id.py": (f"{_HETZNER}provider_id.py",),
    "ccm/ip.py": (f"{_KUBE}ip.py",),
    "ccm/kube/lease.py": (f"{_KUBE}lease.py",),
    "ccm/kube/queue.py": (f"{_KUBE}queue.py", f"{_KUBE}fairness.py"),
    "ccm/kube/backoff.py": (f"{_KUBE}backoff.py",),
}
