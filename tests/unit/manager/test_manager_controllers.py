"""Every flag reaches the controller that it is meant for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from manager_flags import options

from ccm.controllers.route import WATCH_BASED, parse_cluster_cidrs
from ccm.manager.controllers import lifecycle_options, node_options, route_options

CIDR = "--cluster-cidr=10.244.0.0/16"
CASES: list[tuple[Any, str, str, object]] = [
    (node_options, "--concurrent-node-syncs=7", "concurrent_syncs", 7),
    (node_options, "--concurrent-node-status-updates=5", "concurrent_status_updates", 5),
    (node_options, "--node-status-update-frequency=1m", "status_update_frequency", 60),
    (lifecycle_options, "--node-monitor-period=3s", "monitor_period", 3),
    (lifecycle_options, "--node-deletion-confirmations=4", "confirmations", 4),
    (lifecycle_options, "--delete-nodes-without-provider-id", "delete_without_provider_id", True),
    (lifecycle_options, "--node-out-of-service-taint", "out_of_service", True),
    (lifecycle_options, "--concurrent-node-lifecycle-syncs=6", "concurrent_syncs", 6),
    (lifecycle_options, "--mass-deletion-breaker=false", "mass_deletion_breaker", False),
    (route_options, "--cluster-cidr=10.99.0.0/16", "cluster_cidrs", parse_cluster_cidrs("10.99.0.0/16")),
    (route_options, "--route-reconciliation-period=30s", "reconciliation_period", 30),
    (route_options, f"--feature-gates={WATCH_BASED}=true", "watch_based", True),
    (route_options, "--mass-deletion-breaker=false", "mass_deletion_breaker", False),
]


@pytest.mark.parametrize(("make", "flag", "name", "value"), CASES, ids=[case[1] for case in CASES])
def test_a_flag_reaches_its_controller_and_nothing_else(make, flag, name, value) -> None:
    plain, told = make(options(CIDR)), make(options(CIDR, flag))
    assert getattr(told, name) == value != getattr(plain, name)
    others = [field.name for field in fields(plain) if field.name != name]
    assert all(getattr(told, other) == getattr(plain, other) for other in others)
