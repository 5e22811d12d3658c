import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulumi_plugins.kubernetes.cluster import Cluster
from sandbox.kubernetes.controlplane import ControlPlane
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

HEAD = """
import json
import pulumi_kubernetes as k
p = k.Provider("p", kubeconfig=os.environ["CLUSTER"], **json.loads(os.environ.get("PROVIDER", "{}")))
o = O(provider=p)
"""


@pytest.fixture
def cluster(shared_plane: ControlPlane) -> ControlPlane:
    """Serves other tests, too: each uses other names."""
    return shared_plane


@pytest.fixture
def kube(tmp_path: Path, cluster: ControlPlane) -> Iterator[Lab]:
    lab = Lab(tmp_path, {"CLUSTER": str(cluster.kubeconfig)})
    yield lab
    lab.run("destroy", "--yes")


def body(text: str) -> str:
    return HEAD + textwrap.dedent(text)


OBJECTS = body("""
ns = k.core.v1.Namespace("ns", metadata={"name": "demo"}, opts=o)
name = ns.metadata["name"]
data = {"a": os.environ.get("A", "1")}
word = {"pw": pulumi.Output.secret("s3cret")}
c = k.core.v1.ConfigMap("c", metadata={"name": "c", "namespace": name}, data=data, opts=o)
s = k.core.v1.Secret("s", metadata={"name": "s", "namespace": name}, string_data=word, opts=o)
auto = k.core.v1.ConfigMap("auto", metadata={"namespace": name}, data={"a": os.environ.get("A", "1")}, opts=o)
notes = {"pulumi.com/skipAwait": "true"}
d = k.apps.v1.Deployment("d", metadata={"name": "d", "namespace": name, "annotations": notes},
    spec={"replicas": int(os.environ.get("N", "1")), "selector": {"matchLabels": {"a": "b"}},
          "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
          "containers": [{"name": "c", "image": "x"}],
          **({"nodeSelector": {"x": "y"}} if os.environ.get("SA") else {})}}}, opts=o)
""")


@pytest.mark.smoke
def test_objects_are_created_changed_and_deleted(kube: Lab, cluster: ControlPlane) -> None:
    kube.up(OBJECTS)
    state = kube.resources()
    assert state["c"]["id"] == "demo/c"
    assert set(state["c"]["outputs"]) == {
        "__fieldManager", "__initialApiVersion", "__inputs", "apiVersion", "kind", "metadata", "data",
    }  # fmt: skip
    assert "s3cret" not in json.dumps(kube.state())
    assert "czNjcmV0" not in json.dumps(kube.state())
    assert cluster.api().get("/api/v1/namespaces/demo/secrets/s")["data"] == {"pw": "czNjcmV0"}
    assert "unchanged" in kube.up()
    planned = kube.run("preview", "--refresh").out.partition("Resources:")[2]
    assert not re.search("^ [-+~]", planned, re.MULTILINE)

    out = kube.up(A="2", N="3", SA="1")
    assert "~ 1 updated" in out
    assert "+-2 replaced" in out
    assert cluster.api().get("/api/v1/namespaces/demo/configmaps/c")["data"] == {"a": "2"}
    deployment = cluster.api().get("/apis/apps/v1/namespaces/demo/deployments/d")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"x": "y"}
    after = kube.resources()
    assert after["auto"]["id"] != state["auto"]["id"], "an automatic name lets both exist for a moment"

    kube.up(A="2", N="3")
    deployment = cluster.api().get("/apis/apps/v1/namespaces/demo/deployments/d")
    assert "nodeSelector" not in deployment["spec"]["template"]["spec"], "what the program drops is dropped"

    assert kube.run("destroy", "--yes").status == 0
    assert cluster.api().get("/api/v1/namespaces/demo") is None


def test_an_existing_object_is_not_adopted(kube: Lab) -> None:
    out = kube.up(body('k.core.v1.Namespace("n", metadata={"name": "default"}, opts=o)'), status=1)
    assert "Namespace 'default' already exists in the cluster, but isn't in the state of this stack" in out
    advised = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
    assert f"{advised}=true" in out
    kube.up(**{advised: "true"})
    kube.run("state", "delete", "--yes", kube.state()["resources"][-1]["urn"])


def test_fields_of_another_manager_conflict(kube: Lab, cluster: ControlPlane) -> None:
    program = body("""
    k.core.v1.ConfigMap("c", metadata={"name": "conflict", "labels": {"a": os.environ.get("L", "1")},
        "annotations": json.loads(os.environ.get("NOTES", "{}"))}, opts=o)
    """)
    kube.up(program)
    path = "/api/v1/namespaces/default/configmaps/conflict"
    found = {"apiVersion": "v1", "kind": "ConfigMap"}
    found["metadata"] = {"name": "conflict", "labels": {"a": "theirs"}}
    Cluster({"kubeconfig": str(cluster.kubeconfig)}, {}).apply(path, found, "them", force=True)
    out = kube.up(L="2", status=1)
    assert 'conflict with "them"' in out
    assert "'pulumi.com/patchForce: \"true\"'" in out
    kube.up(L="2", NOTES='{"pulumi.com/patchForce": "true"}')
    assert cluster.api().get(path)["metadata"]["labels"] == {"a": "2"}


def test_drift_is_found_and_repaired(kube: Lab, cluster: ControlPlane) -> None:
    program = body("""
    k.core.v1.ServiceAccount("s", metadata={"name": "drift", "labels": {"a": "1"},
        "annotations": {"pulumi.com/patchForce": "true"}}, opts=o)
    """)
    kube.up(program)
    path = "/api/v1/namespaces/default/serviceaccounts/drift"
    admin = Cluster({"kubeconfig": str(cluster.kubeconfig)}, {})
    admin.patch(path, [{"op": "replace", "path": "/metadata/labels/a", "value": "theirs"}])
    assert "~ 1 updated" in kube.run("refresh", "--yes").out
    kube.up()
    assert cluster.api().get(path)["metadata"]["labels"] == {"a": "1"}
    admin.delete(path, "Background")
    assert "- 1 deleted" in kube.run("refresh", "--yes").out
    kube.up()
    assert cluster.api().get(path) is not None


def test_an_object_that_is_not_ready_stays_in_the_state(kube: Lab) -> None:
    program = body("""
    k.core.v1.Service("s", metadata={"name": "lb", "annotations": {"pulumi.com/timeoutSeconds": "1"}},
        spec={"type": os.environ.get("T", "LoadBalancer"), "ports": [{"port": 80}]}, opts=o)
    """)
    out = kube.up(program, status=1)
    assert "Service 'default/lb' was not ready within 1 s: waiting for the load balancer's address" in out
    assert list(kube.resources()) == ["s"]
    assert "was not ready" in kube.up(status=1)
    kube.up(T="ClusterIP")
    assert not any(item.get("initErrors") for item in kube.state()["resources"])


def test_delete_unreachable(kube: Lab, tmp_path: Path, cluster: ControlPlane) -> None:
    program = body('for n in "ab": k.core.v1.ConfigMap(n, metadata={"name": n}, opts=o)')
    kube.up(program, PROVIDER='{"cluster_identifier": "1"}')
    dead = _dead(tmp_path, cluster)
    kube.up(CLUSTER=dead, PROVIDER='{"cluster_identifier": "1"}')
    done = kube.run("refresh", "--yes")
    assert done.status == 1
    assert "the Kubernetes cluster at https://127.0.0.1:9 is unreachable" in done.out
    kube.up(CLUSTER=dead, PROVIDER='{"cluster_identifier": "1", "delete_unreachable": true}')
    done = kube.run("destroy", "--yes")
    assert done.status == 0
    for name in "ab":
        path = f"/api/v1/namespaces/default/configmaps/{name}"
        Cluster({"kubeconfig": str(cluster.kubeconfig)}, {}).delete(path, "Background")


def _dead(folder: Path, cluster: ControlPlane) -> str:
    """The kubeconfig of a cluster, with an address at which nothing answers."""
    text = re.sub(r"server: .*", "server: https://127.0.0.1:9", cluster.kubeconfig.read_text())
    (folder / "dead.yaml").write_text(text)
    return str(folder / "dead.yaml")


LABELLED = body("""
    k.core.v1.ServiceAccount("a", metadata={"name": "labeled", **json.loads(os.environ.get("MORE", "{}")),
        "labels": json.loads(os.environ.get("LABELS", '{"a": "1", "b": "1"}'))}, opts=o)
""")


def test_objects_removed_from_the_state_are_adopted_again(
    kube: Lab, tmp_path: Path, cluster: ControlPlane
) -> None:
    settings = '{"cluster_identifier": "1", "delete_unreachable": true, "upsert_existing_objects": true}'
    kube.up(LABELLED, PROVIDER=settings, LABELS="{}")
    kube.up(PROVIDER=settings)
    path = "/api/v1/namespaces/default/serviceaccounts/labeled"
    before = cluster.api().get(path)["metadata"]["uid"]
    _forget(kube, tmp_path, cluster, settings)
    assert "+ 1 created" in kube.up(PROVIDER=settings)
    assert cluster.api().get(path)["metadata"]["uid"] == before
    assert "unchanged" in kube.up(PROVIDER=settings)

    # The first field manager, whose name is lost, also owns its fields.
    out = kube.up(PROVIDER=settings, LABELS='{"a": "2"}', status=1)
    assert "Other clients manage these fields" in out
    forced = settings.replace("}", ', "enable_patch_force": true}')
    kube.up(PROVIDER=forced, LABELS='{"a": "2"}')
    labels = cluster.api().get(path)["metadata"]["labels"]
    assert labels == {"a": "2", "b": "1"}, "what the first one owns stays"
    assert kube.run("destroy", "--yes").status == 0


def test_a_fixed_field_manager_keeps_its_fields(kube: Lab, tmp_path: Path, cluster: ControlPlane) -> None:
    """The name begins with the second run: the random one of the first gives its fields up."""
    settings = '{"cluster_identifier": "1", "delete_unreachable": true, "upsert_existing_objects": true}'
    kube.up(LABELLED, PROVIDER=settings)
    named = '{"annotations": {"pulumi.com/patchFieldManager": "me"}}'
    kube.up(PROVIDER=settings, MORE=named)
    path = "/api/v1/namespaces/default/serviceaccounts/labeled"
    assert {one["manager"] for one in cluster.api().get(path)["metadata"]["managedFields"]} == {"me"}
    assert kube.resources()["a"]["outputs"]["__fieldManager"] == "me"

    _forget(kube, tmp_path, cluster, settings, MORE=named)
    kube.up(PROVIDER=settings, MORE=named)
    kube.up(PROVIDER=settings, MORE=named, LABELS='{"a": "2"}')
    assert cluster.api().get(path)["metadata"]["labels"] == {"a": "2"}
    assert "unchanged" in kube.up(PROVIDER=settings, MORE=named, LABELS='{"a": "2"}')
    assert kube.run("destroy", "--yes").status == 0


def _forget(kube: Lab, tmp_path: Path, cluster: ControlPlane, settings: str, **environment: str) -> None:
    """A refresh while the cluster does not answer."""
    kube.up(CLUSTER=_dead(tmp_path, cluster), PROVIDER=settings, **environment)
    assert "- 1 deleted" in kube.run("refresh", "--yes").out


def test_objects_are_replaced_for_another_cluster(kube: Lab) -> None:
    program = body('k.core.v1.ConfigMap("a", metadata={"name": "moving"}, opts=o)')
    kube.up(program, PROVIDER='{"cluster_identifier": "1"}')
    out = kube.run("preview", PROVIDER='{"cluster_identifier": "2"}').out
    assert "+-2 to replace" in out


def test_unsupported_settings_and_resources(kube: Lab, cluster: ControlPlane) -> None:
    out = kube.up(body('k.core.v1.ConfigMap("a", opts=o)'), status=1, PROVIDER='{"always_render": true}')
    assert "the provider setting 'alwaysRender'" in out
    program = 'k.core.v1.ConfigMapPatch("a", metadata={"name": "part"}, data={"a": "b"}, opts=o)'
    out = kube.up(body(program), status=1)
    assert "does not support resources of type 'kubernetes:core/v1:ConfigMapPatch'" in out
    found = cluster.api().get("/api/v1/namespaces/default/configmaps")["items"]
    assert "part" not in [one["metadata"]["name"] for one in found]
