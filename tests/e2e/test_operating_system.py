"""Upgrades of the operating system: what they need is there, on servers and in the cluster.

kured itself can't be had here: its Pods wait for their image, and nothing reboots.
"""

from __future__ import annotations

import json

import pytest

from infra.kured import LOCK
from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(600)]

WINDOW = {"days": ["sat", "sun"], "start": "02:00", "end": "05:00", "timeZone": "Europe/Berlin"}
KURED = ("-n", "kube-system", "get", "daemonset", "kured")
CHANGES = ("created", "updated", "replaced", "deleted")


def test_an_environment_with_upgrades_of_the_operating_system(clone, kubernetes_version):
    clone.configure(osUpgrades=WINDOW, workerCount=1)
    clone.dev("up", "--kubernetes", kubernetes_version)
    eventually(
        lambda: clone.kubectl(*KURED)["status"].get("currentNumberScheduled") == 2,
        60,
        "a Pod of kured for the control server and for the worker",
    )
    for role in ("control", "worker-1"):
        said = clone.dev("ssh", role, "cat /etc/apt/apt.conf.d/99-ccm-from-scratch").stdout
        assert 'APT::Periodic::Unattended-Upgrade "1";' in said

    # as kured takes its lock
    lock = json.dumps({"nodeID": "ccm-from-scratch-worker-1"})
    clone.dev("kubectl", "-n", "kube-system", "annotate", "daemonset", "kured", f"{LOCK}={lock}")
    again = clone.dev("up").stdout
    assert not any(f" {word}" in again for word in CHANGES), again
    assert clone.kubectl(*KURED)["metadata"]["annotations"][LOCK] == lock

    clone.configure(osUpgrades={})
    clone.dev("up")
    eventually(lambda: clone.dev("kubectl", *KURED, check=False).returncode, 60, "no kured")
    assert "nothing is left of site" in clone.dev("down").stdout
