import base64
import json
import os
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k3s_standin import capacity, configfile, encryption, node_controller, nodeconfig, paths, runtime
from k3s_standin.capacity import Capacity
from k3s_standin.children import child_environment
from k3s_standin.control_plane import ControlPlane, EtcdMember, commands, nth_address
from k3s_standin.etcd import host
from k3s_standin.kubelet import ClusterFacts, kubelet_command
from k3s_standin.node import node_annotations
from k3s_standin.options import node_options, server_options
from k3s_standin.pki import Pki, serving_names
from k3s_standin.server import warnings
from tests.child_processes import run, script

FACTS = ClusterFacts(
    "10.244.0.0/16",
    "10.43.0.10",
    "cluster.local",
    cloud_controller=False,
    kube_proxy=True,
    flannel=True,
    network_policy=True,
)


def flags(command):
    return dict(word.removeprefix("--").split("=", 1) for word in command[1:])


def control_plane(**changes):
    settings = {
        "data": Path("/data"),
        "pki": Pki(Path("/tls")),
        "bind_address": "0.0.0.0",
        "advertise_address": "10.0.0.2",
        "cluster_cidr": "10.244.0.0/16",
        "service_cidr": "10.43.0.0/16",
    }
    return ControlPlane(**{**settings, **changes})


def test_certificates_are_required():
    server = flags(commands(control_plane())["kube-apiserver"])
    assert server["anonymous-auth"] == "false"
    assert server["authorization-mode"] == "Node,RBAC"
    assert server["enable-admission-plugins"] == "NodeRestriction"
    etcd = flags(commands(control_plane())["etcd"])
    assert etcd["client-cert-auth"] == etcd["peer-client-cert-auth"] == "true"
    assert etcd["listen-client-urls"].startswith("https://127.0.0.1:")


@given(st.ip_addresses().map(str))
@example("127.0.0.1")
def test_etcd_addresses_of_both_families(address):
    plane = control_plane(member=EtcdMember("m1-1", address))
    etcd = flags(commands(plane)["etcd"])
    assert host(etcd["advertise-client-urls"]) == host(etcd["initial-advertise-peer-urls"]) == address
    assert etcd["advertise-client-urls"] in etcd["listen-client-urls"].split(",")
    assert etcd["initial-cluster"] == f"m1-1={plane.peer_url}"


def test_flags_of_the_user_win():
    changed = commands(control_plane(extra={"etcd": {"log-level": "debug"}, "kube-apiserver": {"v": "4"}}))
    assert flags(changed["etcd"])["log-level"] == "debug"
    assert flags(changed["kube-apiserver"])["v"] == "4"


def test_names_of_the_api_server_and_the_issuer_of_tokens():
    assert nth_address("10.43.0.0/16,fd00::/108", 1) == "10.43.0.1"
    assert "10.43.0.1" in serving_names("10.43.0.1", ["203.0.113.9", "", "203.0.113.9"])
    assert serving_names("10.43.0.1", ["a", "a"]).count("a") == 1
    issuer = "https://kubernetes.default.svc.example.internal"
    server = flags(commands(control_plane(cluster_domain="example.internal"))["kube-apiserver"])
    assert (server["service-account-issuer"], server["api-audiences"]) == (issuer, f"{issuer},k3s")
    named = [name for name in serving_names("10.43.0.1", (), "example.internal") if name.count(".") > 2]
    assert named == ["kubernetes.default.svc.example.internal", "127.0.0.1", "10.43.0.1"]


def test_arguments_of_the_kubelet():
    given = {"kubelet-arg": ["cloud-provider=external", "node-ip=10.0.0.9"], "node-ip": ["10.0.0.2"]}
    given |= {"node-label": ["a=1"], "node-taint": ["a=1:NoSchedule"]}
    found = flags(kubelet_command(node_options(given, "w"), FACTS, Path("c"), Path("k")))
    assert found["cloud-provider"] == "external"
    assert found["node-ip"] == "10.0.0.9", "the user's own argument wins"
    assert found["hostname-override"] == "w"
    assert (found["node-labels"], found["register-with-taints"]) == ("a=1", "a=1:NoSchedule")
    assert "provider-id" not in found, "with --disable-cloud-controller the provider ID is not ours to give"


def test_address_annotations_as_in_k3s():
    node = node_options({"node-ip": ["10.0.0.2"], "node-external-ip": ["203.0.113.9"]}, "w")
    assert node_annotations(node) == {
        "k3s.io/hostname": "w",
        "k3s.io/internal-ip": "10.0.0.2",
        "k3s.io/external-ip": "203.0.113.9",
    }


def test_the_environment_of_components():
    ours = {"PATH": "/bin", "K3S_TOKEN": "secret", "NOTIFY_SOCKET": "/run/systemd/notify"}
    for component, cores, wanted in (("kubelet", 8, "1"), ("etcd", 8, "4"), ("etcd", 1, "1")):
        expected = {"PATH": "/bin", "GOMAXPROCS": wanted, "GOGC": "200"}
        assert child_environment(component, ours, cores) == expected
    assert child_environment("kubelet", ours | {"GOMAXPROCS": "4"}, 8)["GOMAXPROCS"] == "4"


def test_importing_images(monkeypatch, tmp_path, capsys):
    images, programs = tmp_path / "images", tmp_path / "programs"
    for folder in (images, programs):
        folder.mkdir()
    monkeypatch.setattr(paths, "IMAGES", images)
    monkeypatch.setattr(paths, "PROGRAMS", programs)
    last = f'for file; do :; done\necho "${{file##*/}}" >> {tmp_path}/asked\n'
    script(programs / "ctr", last + 'grep -q good "$file" || { echo "no archive" >&2; exit 1; }')
    for name in ("a.tar", "b.tar.gz", "c.TGZ", "d.tar.zst", "e.tzst", "f.tar.lz4", "g.txt", "notes"):
        (images / name).write_text("good")
    (images / "aa.tar").write_text("damaged")
    (images / "folder.tar").mkdir()
    runtime._import_all()
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["a.tar", "aa.tar", "b.tar.gz", "c.TGZ", "d.tar.zst", "e.tzst"]
    printed = capsys.readouterr().err
    assert f"Error encountered while importing {images}/aa.tar: no archive" in printed
    assert f"the images in {images}/f.tar.lz4 are not imported" in printed
    assert f"the images in {images}/g.txt are not imported" in printed
    (images / "b.tar.gz").write_text("good, another one")
    os.utime(images / "b.tar.gz", (1, 1))
    runtime._import_all()
    assert (tmp_path / "asked").read_text().split()[len(asked) :] == ["aa.tar", "b.tar.gz"]


@pytest.mark.parametrize(("misc", "status"), [("229 fuse\n", 4), ("229 fuse\n236 device-mapper\n", 1)])
def test_encrypted_devices_without_kernel_support(monkeypatch, tmp_path, misc, status):
    programs, root, other = (tmp_path / name for name in ("programs", "bundle/rootfs", "other"))
    for folder in (programs, root / "sbin", other, root / "usr"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(paths, "PROGRAMS", programs)
    monkeypatch.setattr(paths, "CRYPTSETUP", tmp_path / "instead")
    (root / "usr/sbin").symlink_to(other)  # leads out of the image
    for program, text in (
        (programs / "runc", 'echo "$@"'),
        (root / "sbin/cryptsetup", "exit 1"),
        (other / "cryptsetup", "exit 1"),
        (tmp_path / "instead", runtime.NO_DEVICE_MAPPER.partition("\n")[2]),
        (tmp_path / "runc", runtime.runc_script(50_000, misc).partition("\n")[2]),
    ):
        script(program, text)
    arguments = ["--root", "/r", "create", "--bundle", str(root.parent), "one"]
    assert run([tmp_path / "runc", *arguments], check=True).stdout.split() == arguments
    run([tmp_path / "runc", "state", "one"], check=True)
    asked = [run([path / "cryptsetup", "status", "loop3"]) for path in (root / "sbin", other)]
    assert [answer.returncode for answer in asked] == [status, 1]


def test_node_annotations_without_secrets():
    words = ["server", "--token=s3cret", "--node-ip", "10.0.0.2", "-t", "s3cret", "--debug"]
    variables = {"K3S_TOKEN": "s3cret", "K3S_URL": "https://a:6443", "HOME": "/"}
    found = nodeconfig.config_annotations(words, variables)
    shown = "server --token ******** --node-ip 10.0.0.2 -t ******** --debug"
    assert json.loads(found["k3s.io/node-args"]) == shown.split()
    assert json.loads(found["k3s.io/node-env"]) == {"K3S_TOKEN": "********", "K3S_URL": "https://a:6443"}
    assert "s3cret" not in str(found)
    file = "tls-san: [a, b]\ndebug: true\nt: s3cret\netcd-s3-access-key: s3cret\n"
    in_file = configfile.arguments(configfile.parse(file))
    assert nodeconfig.node_arguments(["server", *in_file]) == [
        *("server", "--tls-san", "a", "--tls-san", "b", "--debug", "true", "-t", "********"),
        *("--etcd-s3-access-key", "********"),
    ]
    assert nodeconfig.node_environment({"K3S_CLUSTER_SECRET": "s3cret"}) == {"K3S_CLUSTER_SECRET": "********"}
    other = nodeconfig.config_annotations(words, {"K3S_URL": "https://b:6443"})
    assert other["k3s.io/node-config-hash"] != found["k3s.io/node-config-hash"]


def test_the_encryption_key_is_created_once(tmp_path):
    file = tmp_path / "cred" / "encryption-config.json"
    encryption.ensure(file)
    text = file.read_text()
    encryption.ensure(file)
    assert file.read_text() == text
    assert file.stat().st_mode & 0o777 == 0o600
    (resource,) = json.loads(text)["resources"]
    assert resource["resources"] == ["secrets"]
    (key,) = resource["providers"][0]["aescbc"]["keys"]
    assert len(base64.b64decode(key["secret"])) == 32
    assert resource["providers"][-1] == {"identity": {}}, "what was written before is still read"
    server = flags(commands(control_plane(encryption=file))["kube-apiserver"])
    assert server["encryption-provider-config"] == str(file)
    assert "encryption-provider-config" not in flags(commands(control_plane())["kube-apiserver"])


def node(name, address, **metadata):
    addresses = [{"type": "InternalIP", "address": address}, {"type": "ExternalIP", "address": "203.0.113.9"}]
    return {"metadata": {"name": name, "uid": f"uid-{name}", **metadata}, "status": {"addresses": addresses}}


def test_dns_has_the_internal_addresses_of_the_nodes_that_stay():
    going = node("c", "10.0.0.4", deletionTimestamp="2026-11-21T12:00:00Z")
    found = node_controller.hosts([node("b", "10.0.0.3"), node("a", "10.0.0.2"), going])
    assert found == "10.0.0.2 a\n10.0.0.3 b\n"


def test_only_our_finalizer_comes_and_goes():
    going = node("a", "x", finalizers=["x/y", node_controller.FINALIZER], deletionTimestamp="t")
    assert node_controller.finalizers(going) == ["x/y"]
    staying = node("a", "x", finalizers=["x/y"])
    assert node_controller.finalizers(staying) == ["x/y", node_controller.FINALIZER]


@given(st.integers(0, 1200), st.booleans())
def test_only_old_passwords_without_a_node_are_orphans(age, has_node):
    made = datetime(2026, 11, 21, 12, tzinfo=UTC)
    secrets = [
        {"metadata": {"name": name, "creationTimestamp": "2026-11-21T12:00:00Z"}}
        for name in ("a.node-password.k3s", "other")
    ]
    found = node_controller.orphans(secrets, [node("a", "x")] * has_node, made.timestamp() + age)
    assert found == (["a.node-password.k3s"] if age >= 600 and not has_node else [])


def test_warnings_about_flags():
    everything = ["traefik", "servicelb"]
    values = {"disable-cloud-controller": True, "flannel-backend": "none", "disable": everything}
    assert warnings(server_options(values, "c", "10.0.0.2")) == []
    assert len(warnings(server_options({}, "c", "10.0.0.2"))) == 3


def version_1(memory, quota):
    cpu = {"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000"}
    return {"memory/memory.limit_in_bytes": memory, **cpu}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, Capacity(None, None)),
        ({"memory.max": "max", "cpu.max": "max 100000"}, Capacity(None, None)),
        ({"memory.max": "2147483648", "cpu.max": "150000 100000"}, Capacity(2 << 30, 1500)),
        (version_1("2147483648", "200000"), Capacity(2 << 30, 2000)),
        (version_1("9223372036854771712", "-1"), Capacity(None, None)),
    ],
)
def test_a_machines_limits_are_read_from_either_version_of_cgroups(tmp_path, files, wanted):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert capacity.read_capacity(tmp_path) == wanted


@given(st.integers(1, 64), st.integers(1, 1 << 40), st.integers(1, 64000), st.integers(1, 1 << 40))
def test_allocatable_resources_of_a_machine(cores, host_memory, millicores, memory):
    host = Capacity(host_memory, cores * 1000)
    reserved = capacity.system_reserved(Capacity(memory, millicores), host)
    left = host.millicores - int(reserved.get("cpu", "0m").removesuffix("m"))
    assert left == min(millicores, cores * 1000)
    left = host_memory - (int(reserved.get("memory", "0Mi").removesuffix("Mi")) << 20)
    assert min(memory, host_memory) - (1 << 20) < left <= min(memory, host_memory)


@given(st.ip_addresses(v=4), st.integers(8, 28))
def test_the_dns_address_is_inside_the_service_range(address, length):
    network = ip_network((address, length), strict=False)
    options = server_options({"service-cidr": [str(network)]}, "c", "10.0.0.2")
    assert ip_network(options.cluster_dns).subnet_of(network)
