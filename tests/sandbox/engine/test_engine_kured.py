"""kured, as this project's program deploys it, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_lab import Lab

from infra.kured import LOCK
from sandbox.kubernetes.controlplane import ControlPlane

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ACCOUNT = "system:serviceaccount:kube-system:kured"
DAEMONS = "/apis/apps/v1/namespaces/kube-system/daemonsets/kured"
PROGRAM = """
import pulumi_kubernetes
from infra.kured import Kured
from infra.reboot_window import RebootWindow
provider = pulumi_kubernetes.Provider("p", kubeconfig=os.environ["CLUSTER"])
window = RebootWindow(("sat", "sun"), "02:00", os.environ.get("END", "05:00"), "Europe/Berlin")
Kured("kured", "kured:1", window, drain_seconds=300, in_cluster=O(provider=provider), after=[])
"""


@pytest.fixture
def kured(tmp_path: Path, shared_plane: ControlPlane) -> Iterator[Lab]:
    lab = Lab(tmp_path, {"CLUSTER": str(shared_plane.kubeconfig), "PYTHONPATH": str(ROOT)})
    lab.program(PROGRAM)
    yield lab
    lab.run("destroy", "--yes")


def may(plane: ControlPlane, verb: str, resource: str, **more: str) -> bool:
    """Whether kured may do something in its own namespace."""
    group, _, plural = resource.rpartition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "namespace": "kube-system", **more}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return plane.api().request("POST", path, body)["status"]["allowed"]


def test_it_comes_keeps_its_lock_and_goes(kured: Lab, shared_plane: ControlPlane) -> None:
    kured.up()
    (container,) = daemons(shared_plane)["spec"]["template"]["spec"]["containers"]
    assert "--end-time=05:00" in container["command"]

    for verb, resource in (
        ("get", "nodes"),
        ("patch", "nodes"),
        ("list", "pods"),
        ("get", "apps/daemonsets"),
    ):
        assert may(shared_plane, verb, resource), (verb, resource)
    assert may(shared_plane, "create", "pods", subresource="eviction")
    assert may(shared_plane, "update", "apps/daemonsets", name="kured")
    assert not may(shared_plane, "update", "apps/daemonsets", name="other")
    assert not may(shared_plane, "get", "secrets")

    lock = json.dumps({"nodeID": "a"})
    taken = daemons(shared_plane)
    taken["metadata"]["annotations"][LOCK] = lock
    shared_plane.api().request("PUT", DAEMONS, taken)  # as kured does
    assert "unchanged" in kured.up()
    assert "updated" in kured.up(END="06:00")
    after = daemons(shared_plane)
    assert after["metadata"]["annotations"][LOCK] == lock
    assert "--end-time=06:00" in after["spec"]["template"]["spec"]["containers"][0]["command"]

    assert kured.run("destroy", "--yes").status == 0
    assert shared_plane.api().get(DAEMONS) is None


def daemons(plane: ControlPlane) -> dict[str, Any]:
    found = plane.api().get(DAEMONS)
    assert found is not None
    return found
