import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccm_pulumi.addons.kured import LOCK
from ccm_pulumi.cluster.drain import EXCLUDED
from k3s_standin.api import ApiError
from sandbox.kubernetes.controlplane import ControlPlane
from tests.pulumi_lab import Lab
from tests.waiting import wait

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ACCOUNT = "system:serviceaccount:kube-system:kured"
DAEMONS = "/apis/apps/v1/namespaces/kube-system/daemonsets/kured"
PROGRAM = """
import pulumi_kubernetes
from ccm_pulumi.addons.kured import Kured
from ccm_pulumi.config.reboot_window import RebootWindow
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
    wait_until_gone(shared_plane)


def wait_until_gone(plane: ControlPlane) -> None:
    """Pulumi doesn't wait where the program says skipAwait: the garbage collector deletes afterwards."""
    wait(lambda: plane.api().get(DAEMONS) is None)


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
    wait_until_gone(shared_plane)


def answer(plane: ControlPlane, node: str, method: str, path: str, body: Any = None) -> int:
    """The status that the account gets with a token that is bound to a Pod on a node; empty: to none."""
    api = plane.api()
    extra = {"Impersonate-Extra-authentication.kubernetes.io%2Fnode-name": node} if node else {}
    api.headers = {"Impersonate-User": ACCOUNT, **extra}
    try:
        api.request(method, path, body, "application/merge-patch+json")
    except ApiError as error:
        return error.status
    return 200


def test_with_the_token_of_one_node_nothing_of_another_changes(
    kured: Lab, shared_plane: ControlPlane
) -> None:
    kured.up()
    api = shared_plane.api()
    role, pod = "node-role.kubernetes.io/control-plane", "/api/v1/namespaces/kube-system/pods/kured-test"
    own, other = "kured-own", "kured-other"
    taint = {"key": "x", "effect": "NoSchedule"}
    for name in (own, other):
        labels = {"pool": "web", EXCLUDED: "false"}
        spec = {"taints": [taint]}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        api.request("POST", "/api/v1/nodes", node)
    try:
        # a new policy takes effect a moment after it was created
        wait(lambda: answer(shared_plane, own, "PATCH", f"/api/v1/nodes/{other}", {}) == 422)

        def change(node: str, by: str, **body: Any) -> int:
            return answer(shared_plane, by, "PATCH", f"/api/v1/nodes/{node}", body)

        cordon, excluded = {"unschedulable": True}, {"labels": {EXCLUDED: "rebooting"}}
        assert change(own, own, spec=cordon, metadata=excluded) == 200
        assert change(own, own, spec={"unschedulable": None}, metadata={"labels": {EXCLUDED: None}}) == 200
        for node, by, body in (
            (other, own, {"spec": cordon}),
            (other, own, {"metadata": excluded}),
            (own, "", {"spec": cordon}),
            (own, own, {"metadata": {"labels": {role: "true"}}}),
            (own, own, {"metadata": {"labels": {"pool": "edge"}}}),
            (own, own, {"metadata": {"labels": {"pool": None}}}),
            (own, own, {"spec": {"taints": []}}),
        ):
            assert change(node, by, **body) == 422, (node, by, body)
        for node, status in ((own, 200), (other, 422)):
            containers = [{"name": "x", "image": "x"}]
            spec = {"nodeName": node, "containers": containers, "automountServiceAccountToken": False}
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kured-test"}, "spec": spec}
            api.request("POST", pod.rpartition("/")[0], made)
            assert answer(shared_plane, own, "DELETE", f"{pod}?gracePeriodSeconds=0") == status
            if status != 200:
                api.request("DELETE", f"{pod}?gracePeriodSeconds=0")
        assert api.get(f"/api/v1/nodes/{other}")["spec"].get("unschedulable") is None
    finally:
        for name in (own, other):
            api.request("DELETE", f"/api/v1/nodes/{name}")


def daemons(plane: ControlPlane) -> dict[str, Any]:
    found = plane.api().get(DAEMONS)
    assert found is not None
    return found
