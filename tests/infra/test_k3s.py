import asyncio
import hashlib
import shlex

import pytest
import yaml
from control_servers import PROPS
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster import k3s_flags, k3s_scripts
from ccm_pulumi.cluster.etcd_join import Start
from ccm_pulumi.cluster.k3s_installation import (
    K3sAgentProvider,
    K3sServerProvider,
    agent_script,
    files_of,
    generation_of,
    identity_of,
    server_script,
)
from ccm_pulumi.config import k3s
from ccm_pulumi.servers.keys import SharedSecretProvider
from k3s_standin.api import ApiError
from sandbox.kubernetes.controlplane import ControlPlane

RELEASE = k3s.Release("https://get.k3s.io", "v1.36", "")
AT = k3s_flags.addresses_of(PROPS)
TOKENS = k3s.Tokens(server="s3rver", agent="ag3nt")


def test_server_flags_as_in_the_tutorial():
    flags = k3s_flags.server_flags(PROPS)
    assert set(flags) == {
        "--disable-cloud-controller",
        "--cluster-cidr=10.244.0.0/16",
        "--service-cidr=10.43.0.0/16",
        "--kubelet-arg=cloud-provider=external",
        "--disable=traefik,servicelb",
        "--flannel-backend=none",
        "--advertise-address=10.0.0.7",
        "--tls-san=203.0.113.7",
        "--node-ip=10.0.0.7",
        "--node-external-ip=203.0.113.7",
    }


@pytest.mark.parametrize("level", ["", "baseline", "restricted"])
def test_what_is_demanded_of_pods_is_on_the_disk_before_k3s_starts(level):
    wanted = {**PROPS, "pod_security": level}
    flags, files = k3s_flags.server_flags(wanted), files_of(wanted)
    script = k3s_scripts.server_script(RELEASE, AT, flags, TOKENS, cluster=None, files=files)
    flag = f"--kube-apiserver-arg=admission-control-config-file={k3s.POD_SECURITY}"
    assert (flag in flags) is (k3s.POD_SECURITY in script) is bool(level)
    if level:
        assert script.index(f'mv -f "$given" {k3s.POD_SECURITY}') < script.index(flag)
        [plugin] = yaml.safe_load(k3s_flags.pod_security_configuration(level))["plugins"]
        assert plugin["name"] == "PodSecurity"
        assert plugin["configuration"]["defaults"] == {"enforce": level, "warn": level}
        assert plugin["configuration"]["exemptions"] == {"namespaces": ["kube-system"]}


def test_a_cluster_can_do_without_parts_of_k3s():
    wanted = {**PROPS, "disable": ["local-storage"], "network_policy": False, "tainted": True}
    assert {
        "--disable=traefik,servicelb,local-storage",
        "--disable-network-policy",
        "--node-taint=node-role.kubernetes.io/control-plane:NoSchedule",
    } <= {*k3s_flags.server_flags(wanted)}


UNREADY = {"k3s": 'case "$*" in *verbose*) echo "[-]etcd failed" ;; esac; exit 1'}


class Machine:
    """A shell whose `curl`, `ip`, `systemctl` and installer write down what they were asked."""

    def __init__(self, folder):
        self._folder = folder
        self.log = folder / "log"
        self.log.touch()
        self.programs(
            installer=f'echo "installer $*" >> {self.log}; env | grep K3S | sort >> {self.log}',
            curl=f'while [ "$1" != -o ]; do shift; done; cat {folder}/bin/installer > "$2"',
            ip="echo '2: ens10    inet 10.0.0.7/32 brd 10.0.0.2 scope global ens10'",
            systemctl=f'echo "systemctl $*" >> {self.log}',
            k3s="echo ok",
            journalctl="echo 'level=fatal msg=\"flag provided but not defined: -x\"'",
            sleep="true",
        )

    def programs(self, **scripts):
        self._path = programs(self._folder / "bin", **scripts)

    def run(self, script):
        return sh(script, self._path, check=False, TMPDIR=str(self._folder))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_server_is_installed_with_its_token_in_the_environment_only(machine, tmp_path):
    tokens = k3s.Tokens("s3cret 'quoted'", "ag3nt")
    done = machine.run(k3s_scripts.server_script(RELEASE, AT, ["--a=b c", "--d"], tokens, cluster=None))
    assert done.returncode == 0, done.stderr
    first, *environment, last = machine.log.read_text().splitlines()
    assert first == "installer server --a=b c --d"
    assert {*environment} >= {
        "K3S_TOKEN=s3cret 'quoted'",
        "K3S_AGENT_TOKEN=ag3nt",
        "INSTALL_K3S_CHANNEL=v1.36",
        # otherwise the installer doesn't start what an interrupted run installed: it sees no change
        "INSTALL_K3S_FORCE_RESTART=true",
    }
    assert last == "systemctl start k3s"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "log"], "the installer is removed"


@pytest.mark.parametrize(
    ("scripts", "status", "says"),
    [
        ({"systemctl": "exit 1"}, 1, "flag provided but not defined"),
        ({"curl": "echo 'could not resolve host' >&2; exit 6"}, 6, "could not resolve"),
        (UNREADY, 1, "[-]etcd failed"),
        (UNREADY, 1, "was not ready within 120 s"),
    ],
)
def test_an_installation_that_fails_says_why(machine, scripts, status, says):
    machine.programs(**scripts)
    done = machine.run(k3s_scripts.server_script(RELEASE, AT, [], TOKENS, cluster=None))
    assert done.returncode == status
    assert says in done.stdout + done.stderr
    assert ("installer" in machine.log.read_text()) is ("curl" not in scripts)


def test_the_agent_is_started_without_waiting(machine):
    done = machine.run(k3s_scripts.agent_script(RELEASE, AT, "10.0.0.9", "s3cret", reinstall=False))
    assert done.returncode == 0, done.stderr
    lines = machine.log.read_text().splitlines()
    assert lines[0].startswith("installer agent --kubelet-arg=cloud-provider=external --node-ip=10.0.0.7")
    assert "K3S_URL=https://10.0.0.9:6443" in lines
    assert "INSTALL_K3S_SKIP_START=true" in lines
    assert lines[-1] == "systemctl restart --no-block k3s-agent"


def test_a_new_cluster_uninstalls_k3s_after_the_download_of_the_installer():
    moved = k3s_scripts.agent_script(RELEASE, AT, "10.0.0.9", "t", reinstall=True)
    steps = [moved.index(step) for step in ("curl", "k3s-agent-uninstall.sh", 'sh "$installer"')]
    assert steps == sorted(steps)
    assert "rm -f /etc/cni/net.d/10-native.conflist /etc/cni/net.d/05-cilium.conflist" in moved
    assert "uninstall" not in k3s_scripts.agent_script(RELEASE, AT, "10.0.0.9", "t", reinstall=False)
    fresh = k3s_scripts.server_script(RELEASE, AT, [], TOKENS, cluster="one")
    steps = [fresh.index(step) for step in ("curl", "k3s-uninstall.sh", 'sh "$installer"')]
    assert steps == sorted(steps)
    assert "uninstall" not in k3s_scripts.server_script(RELEASE, AT, [], TOKENS, cluster=None)


@pytest.mark.parametrize(
    ("joined", "answer", "end"),
    [
        ("", "exit 7", (0, "left\n")),
        ("one", "exit 0", (0, "")),
        ("one", "printf 19; exit 60", (0, "left\n")),
        ("one", "printf 10; exit 60", (60, "")),  # the certificate has expired
        ("one", "printf 1; exit 60", (60, "")),  # the certificate has another address
        ("one", "exit 7", (7, "")),
    ],
)
def test_an_agent_keeps_its_volumes_in_the_same_cluster(machine, tmp_path, joined, answer, end):
    authority, uninstall = tmp_path / "server-ca.crt", tmp_path / "bin" / "uninstall"
    machine.programs(curl=answer, uninstall=f"echo left >> {machine.log}")
    authority.write_text(joined)
    script = k3s_scripts.leave_another_cluster("10.0.0.9", str(authority), str(uninstall), str(tmp_path))
    assert (machine.run("set -eu\n" + script).returncode, machine.log.read_text()) == end


def test_an_interrupted_installation_is_gone_on_with_and_another_cluster_removed(machine, tmp_path):
    folder, uninstall = tmp_path / "k3s", tmp_path / "bin" / "k3s-uninstall.sh"

    def install(cluster, status=0):
        script = k3s_scripts.begin_cluster(cluster, str(folder), str(uninstall), str(tmp_path))
        assert machine.run("set -eu\n" + script).returncode == status
        return machine.log.read_text().splitlines()

    machine.programs(systemctl="echo inactive; exit 3")
    (tmp_path / "10-native.conflist").touch()
    (tmp_path / "87-podman.conflist").touch()
    assert install("one") == []
    assert not (tmp_path / "10-native.conflist").exists(), "Pods would get addresses of another cluster"
    assert (tmp_path / "87-podman.conflist").exists(), "that is not ours"
    machine.programs(**{"k3s-uninstall.sh": f"echo uninstalled >> {machine.log}; rm -r {folder}"})
    assert install("one") == []
    assert install("two") == ["uninstalled"]
    assert install("two") == ["uninstalled"]
    # a cluster that another program installed
    (folder / "cluster-of-ccm-from-scratch").unlink()
    machine.programs(systemctl="echo activating; exit 3")
    assert install("two", status=1) == ["uninstalled"]


def test_a_cluster_that_exists_goes_on_without_encryption_and_a_new_one_begins_with_it(machine, tmp_path):
    folder = tmp_path / "k3s"
    begin = k3s_scripts.begin_cluster("one", str(folder), str(tmp_path / "none"), str(tmp_path))
    folder.mkdir()
    (folder / "cluster-of-ccm-from-scratch").write_text("one\n")
    assert machine.run(begin).returncode == 0
    assert not (folder / "config.yaml.d").exists(), "an interrupted installation of before"
    (folder / "cluster-of-ccm-from-scratch").write_text("two\n")
    assert machine.run(begin).returncode == 0
    files = {path.name: path.read_text() for path in (folder / "config.yaml.d").iterdir()}
    assert files == {"secrets-encryption.yaml": "secrets-encryption: true\n"}
    assert k3s.ENCRYPTED not in k3s_scripts.server_script(RELEASE, AT, [], TOKENS, cluster=None)


FACTS = ("42", "10.244.0.0/16", "10.43.0.0/16", "10.0.0.2", "A" * 64)


@pytest.mark.parametrize("changed", range(5))
def test_the_generation_follows_everything_that_replaces_the_server(changed):
    assert len(K3sServerProvider.replaced_by) == len(FACTS)
    other = [*FACTS]
    other[changed] = "B" * 64
    assert generation_of(*other) != generation_of(*FACTS)
    assert FACTS[4] not in generation_of(*FACTS)


def test_the_generation_of_an_earlier_versions_cluster_stays_what_its_state_has():
    # another one would replace every object in the cluster, load balancers included
    assert generation_of(*FACTS[:4], "a" * 64) == "42/10.244.0.0/16/10.43.0.0/16"
    drawn = SharedSecretProvider().create({}).outs["value"]
    assert generation_of(*FACTS[:4], drawn) != generation_of(*FACTS[:4], drawn.lower())


def test_the_state_of_an_earlier_version_is_updated_in_place():
    server = {"server_id": "42", "cluster_cidr": "a", "service_cidr": "b", "token": "t", "private_ip": "p"}
    result = K3sServerProvider().diff("", server, {**server, "agent_token": "ag3nt"})
    assert (result.changes, result.replaces) == (True, [])
    agent = {"server_id": "43", "cluster": "42/a/b", "server_ip": "p", "token": "t"}
    result = K3sAgentProvider().diff("", agent, {**agent, "token": "ag3nt"})
    assert (result.changes, result.replaces) == (True, [])


def test_the_identity_of_a_cluster_hides_its_token():
    props = dict.fromkeys(K3sServerProvider.replaced_by, "a") | {"token": "s3cret", "channel": "v1.36"}
    facts = {"address": "a", "install_url": "u", "version": "", "agent_token": "t"}
    facts |= {"disable": [], "network_policy": True}
    assert identity_of(props).isalnum()
    assert "s3cret" not in server_script({**props, **facts}, Start(), cluster=identity_of(props)).replace(
        "K3S_TOKEN=s3cret", ""
    )
    assert identity_of({**props, "channel": "v1.37"}) == identity_of(props)
    assert identity_of({**props, "token": "other"}) != identity_of(props)


def pinned(digest):
    return k3s.Release(f"https://example.com/install.sh#sha256={digest}", "", "v1.36.3+k3s1")


def test_the_installer_that_is_named_by_its_hash_is_run(machine):
    machine.programs(
        curl=f'echo "curl $*" >> {machine.log}; while [ "$1" != -o ]; do shift; done; echo : > "$2"'
    )
    script = k3s_scripts.server_script(
        pinned(hashlib.sha256(b":\n").hexdigest()), AT, [], TOKENS, cluster=None
    )
    assert machine.run(script).returncode == 0
    assert " https://example.com/install.sh\n" in machine.log.read_text()


@pytest.mark.parametrize("role", ["server", "agent"])
def test_another_installer_is_not_run(machine, role):
    release = pinned("0" * 64)
    if role == "server":
        script = k3s_scripts.server_script(release, AT, [], TOKENS, cluster=None)
    else:
        script = k3s_scripts.agent_script(release, AT, "10.0.0.3", "secret", reinstall=False)
    done = machine.run(script)
    assert done.returncode == 1
    assert "https://example.com/install.sh has the SHA-256 " in done.stderr
    assert f"k3sInstallUrl requires {'0' * 64}" in done.stderr
    assert "installer" not in machine.log.read_text()


@given(token=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_no_token_leaves_its_quotes(token):
    script = k3s_scripts.agent_script(RELEASE, AT, "10.0.0.9", token, reinstall=False)
    assert f"export K3S_TOKEN={shlex.quote(token)}\n" in script


def test_a_node_joins_with_what_its_pool_says():
    flags = k3s_flags.pool_flags({"disk": "fast", "a": ""}, ["dedicated=db:NoSchedule"])
    assert flags == ["--node-label=a=", "--node-label=disk=fast", "--node-taint=dedicated=db:NoSchedule"]
    props = {"address": "203.0.113.7", "private_ip": "10.0.0.3", "server_ip": "10.0.0.2", "token": "t"}
    marked = {"node_labels": {"disk": "fast"}, "node_taints": ["dedicated=db:NoSchedule"]}
    script = agent_script({**props, **marked}, RELEASE, reinstall=False)
    assert "--node-label=disk=fast --node-taint=dedicated=db:NoSchedule" in script
    assert "export K3S_TOKEN=t\n" in script
    unmarked = agent_script(props, RELEASE, reinstall=False)
    assert "--node-" not in unmarked.replace("--node-ip", "").replace("--node-external-ip", "")


@pytest.mark.slow
async def test_an_api_server_refuses_pods_of_which_more_is_demanded(kubernetes, tmp_path):
    (tmp_path / "pod-security.yaml").write_text(k3s_flags.pod_security_configuration("baseline"))
    flags = {"admission-control-config-file": str(tmp_path / "pod-security.yaml")}
    plane = ControlPlane(kubernetes, tmp_path / "plane", extra={"kube-apiserver": flags})
    try:
        await plane.start()
        api = plane.api()
        for namespace, privileged, allowed in (
            ("default", True, False),
            ("default", False, True),
            ("kube-system", True, True),
        ):
            container = {"name": "x", "image": "x", "securityContext": {"privileged": privileged}}
            spec = {"containers": [container], "automountServiceAccountToken": False}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}, "spec": spec}
            path = f"/api/v1/namespaces/{namespace}/pods"
            async with asyncio.timeout(60):  # the controller manager makes the account of each namespace
                while not await asyncio.to_thread(api.get, f"{path[:-4]}serviceaccounts/default"):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            if allowed:
                assert await asyncio.to_thread(api.request, "POST", path, pod)
            else:
                with pytest.raises(ApiError, match="PodSecurity"):
                    await asyncio.to_thread(api.request, "POST", path, pod)
    finally:
        await plane.stop()
