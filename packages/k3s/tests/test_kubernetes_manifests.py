import os

import pytest
import pytest_asyncio
import yaml

from k3s_standin import manifests
from k3s_standin.manifests import Deployer, is_disabled, objects, stage
from sandbox.kubernetes.controlplane import ControlPlane

VALUES = manifests.variables("10.43.0.10", "cluster.local", "/var/volumes")


@pytest.fixture
def packaged():
    return manifests.packaged(VALUES)


def of_kind(text, kind):
    (found,) = [one for one in objects(text) if one["kind"] == kind]
    return found


def test_coredns_waits_for_a_cloud_controller_manager_and_has_k3ss_corefile(packaged):
    pod = of_kind(packaged["coredns.yaml"], "Deployment")["spec"]["template"]["spec"]
    assert not any("uninitialized" in toleration["key"] for toleration in pod["tolerations"])
    assert {"name": "coredns-custom", "optional": True} in [one["configMap"] for one in pod["volumes"]]
    assert of_kind(packaged["coredns.yaml"], "Service")["spec"]["clusterIP"] == "10.43.0.10"
    corefile = of_kind(packaged["coredns.yaml"], "ConfigMap")["data"]["Corefile"]
    for line in ("kubernetes cluster.local", "hosts /etc/coredns/NodeHosts {", "/custom/*.override"):
        assert line in corefile
    assert corefile.endswith("}\nimport /etc/coredns/custom/*.server\n")


def test_coredns_serves_at_an_address_of_each_family():
    one, both = ["10.43.0.10"], ["10.43.0.10", "fd43::a"]
    for addresses, policy in ((one, "SingleStack"), (both, "RequireDualStack")):
        values = manifests.variables(",".join(addresses), "cluster.local", "")
        spec = of_kind(manifests.packaged(values)["coredns.yaml"], "Service")["spec"]
        assert (spec["clusterIP"], spec["clusterIPs"]) == (addresses[0], addresses)
        assert spec["ipFamilyPolicy"] == policy


def test_disable_names_a_file_without_its_ending_or_a_folder():
    assert is_disabled("local-storage.yaml", {"local-storage"})
    assert is_disabled("metrics-server/auth-reader.yaml", {"metrics-server"})
    assert is_disabled("metrics-server/auth-reader.yaml", {"auth-reader"})
    assert is_disabled("metrics-server/deep/x.yaml", {"metrics-server/deep"})
    assert is_disabled("mine.JSON", {"mine"})
    assert not is_disabled("metrics-server/auth-reader.yaml", {"metrics"})
    assert not is_disabled("mine.txt", {"mine"})
    assert not is_disabled("mine.yaml", {"mine.yaml"})
    assert not is_disabled("coredns.yaml", set())


def test_disabled_manifests_are_not_written(packaged, tmp_path):
    stage(tmp_path, packaged, {"metrics-server", "local-storage"})
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"coredns.yaml", "rolebindings.yaml"}
    assert (tmp_path / "coredns.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "7", "kind: A", "apiVersion: v1\nkind: A\nmetadata: {}", "a: !!x 1"]
)
def test_invalid_manifests(text):
    with pytest.raises(ValueError, match=r"."):
        objects(text)


def test_lists_and_empty_documents():
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    text = yaml.safe_dump_all([None, {"apiVersion": "v1", "kind": "List", "items": [one, one]}, one])
    assert objects(text) == [one, one, one]
    assert objects("# nothing\n---\n") == []


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def api(kubernetes, tmp_path_factory):
    async with ControlPlane(kubernetes, tmp_path_factory.mktemp("cluster")) as running:
        yield running.api()


def config_map(name, **data):
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_manifests_are_applied_and_disabled_ones_deleted(api, packaged, tmp_path):
    stage(tmp_path, packaged, ())
    assert Deployer(api, tmp_path, ()).sync() == []
    classes = "/apis/storage.k8s.io/v1/storageclasses/local-path"
    metrics = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
    assert api.get(classes)["provisioner"] == "rancher.io/local-path"
    assert api.get(metrics)["spec"]["service"]["name"] == "metrics-server"
    disabled = Deployer(api, tmp_path, {"local-storage", "metrics-server"})
    assert disabled.sync() == []
    assert api.get(classes) is api.get(metrics) is None
    assert {path.name for path in tmp_path.rglob("*.yaml")} == {"coredns.yaml", "rolebindings.yaml"}
    assert disabled.sync() == []


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_dates_are_texts_and_invalid_files_are_skipped(api, tmp_path):
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dates"
    dates = f"{head}, annotations: {{since: 2026-01-31}}}}\ndata: {{at: 22:22}}\n"
    (tmp_path / "a-date.yaml").write_text(dates)
    (tmp_path / "circle.yaml").write_text(f"{head}}}\ndata: &a {{b: *a}}\n")
    (tmp_path / "deep.yaml").write_text(f"{head}}}\ndata: {'[' * 5000}")
    (tmp_path / "group.yaml").write_text("apiVersion: apps/\nkind: Deployment\nmetadata: {name: a}\n")
    (tmp_path / "none.yaml").write_text("apiVersion: ''\nkind: Pod\nmetadata: {name: a}\n")
    (tmp_path / "not-a-text.yaml").write_text(f"{head}}}\nbinaryData: {{a: !!binary aGVsbG8=}}\n")
    failures = Deployer(api, tmp_path, ()).sync()
    found = api.get("/api/v1/namespaces/default/configmaps/dates")
    assert found["metadata"]["annotations"]["since"] == "2026-01-31"
    assert found["data"] == {"at": "22:22"}
    refused = [failure.partition(".yaml: ")[0].rpartition("/")[2] for failure in failures]
    assert refused == ["circle", "deep", "group", "none", "not-a-text"]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_changed_manifests_are_applied_and_failures_logged(api, tmp_path):
    path = "/api/v1/namespaces/default/configmaps/mine"
    mine, deployer = tmp_path / "mine.yaml", Deployer(api, tmp_path, ())
    mine.write_text(config_map("mine", a="1"))
    (tmp_path / "no.yaml").write_text(config_map("no"))
    (tmp_path / "no.yaml.skip").touch()
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "later.yaml").write_text("apiVersion: example.org/v1\nkind: Later\nmetadata: {name: a}\n")
    broken, later = deployer.sync()
    assert "broken.yaml" in broken
    assert "example.org" in later
    assert api.get(path)["data"] == {"a": "1"}
    assert api.get("/api/v1/namespaces/default/configmaps/no") is None
    api.merge(path, {"data": {"a": "2"}})
    deployer.sync()
    assert api.get(path)["data"] == {"a": "2"}, "the file has not changed"
    mine.write_text(config_map("mine", a="3"))
    os.utime(mine, ns=(0, mine.stat().st_mtime_ns + 1))
    deployer.sync()
    assert api.get(path)["data"] == {"a": "3"}
    mine.unlink()
    deployer.sync()
    assert api.get(path) is not None, "as in k3s, a file that is gone takes nothing with it"
