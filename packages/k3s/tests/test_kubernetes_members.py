"""Three servers with embedded etcd and an agent on real machines: one is lost, leaves, and is replaced."""

import asyncio
import contextlib

import pytest
import pytest_asyncio
from machines_lab import NODE, CommandFailedError, started_lab

pytestmark = [pytest.mark.machines, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

FIRST, SECOND = "https://10.0.0.2:6443", "https://10.0.0.3:6443"
TLS = "/var/lib/rancher/k3s/server/tls"
MEMBERS = (
    f"curl -sSf --cacert {TLS}/etcd-ca.crt --cert {TLS}/etcd-client.crt --key {TLS}/etcd-client.key "
    "-X POST -d '{}' https://127.0.0.1:2379/v3/cluster/member/list | grep -o '\"name\":\"m[0-9]' | sort"
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(cache, kubernetes_version, tmp_path_factory):
    """Servers on machines 1 to 3 and an agent, which joins by the first, on machine 4."""
    state = tmp_path_factory.mktemp("state")
    async with started_lab(cache, kubernetes_version, state, machines=4) as running:
        await running.install_member(1, "--cluster-init")
        agent = f"K3S_URL={FIRST} K3S_TOKEN=the-servers sh -s - agent --node-ip 10.0.0.5 {NODE}"
        await running.run(4, f"{running.install} {agent}")
        for number in (2, 3):
            await join(running, number, FIRST)
        yield running


async def join(lab, number, server):
    """Install a server that joins; as with genuine k3s, it ends while etcd takes no further member."""
    with contextlib.suppress(CommandFailedError):
        await lab.install_member(number, "--server", server)
    await lab.until(number, "systemctl start k3s", seconds=120)


async def members(lab, number):
    """The first two letters of the members' names: their machines."""
    return [line[-2:] for line in (await lab.until(number, MEMBERS)).splitlines()]


async def ready(lab, number, *names):
    """Wait until Nodes are Ready, as a server says."""
    wanted = " ".join(f"node/{name}" for name in names)
    await lab.until(number, f"k3s kubectl wait --for=condition=Ready {wanted} --timeout=1s")


async def test_servers_that_join_are_members_with_one_set_of_secrets(lab):
    await ready(lab, 3, "m1", "m2", "m3", "m4")
    assert await members(lab, 3) == ["m1", "m2", "m3"]
    of_etcd = "k3s kubectl get nodes -l node-role.kubernetes.io/etcd=true -o name"
    assert await lab.run(2, of_etcd) == "node/m1\nnode/m2\nnode/m3"
    shared = f"cd {TLS} && sha256sum server-ca.key client-ca.key service.key ../cred/encryption-config.json"
    assert len({await lab.run(number, shared) for number in (1, 2, 3)}) == 1
    await lab.run(1, "k3s kubectl create secret generic hidden --from-literal=word=plain")
    word = "k3s kubectl get secret hidden -o jsonpath={.data.word} | base64 -d"
    assert await lab.run(3, word) == "plain"


async def test_a_server_that_was_told_otherwise_does_not_join(lab):
    await lab.run(4, "k3s-agent-uninstall.sh")
    with pytest.raises(CommandFailedError, match=r"Job for k3s\.service failed"):
        await lab.install_member(4, "--server", FIRST, "--service-cidr=10.99.0.0/16")
    said = await lab.run(4, "journalctl -u k3s -o cat")
    assert "critical configuration value mismatch between servers: --service-cidr is 10.99.0.0/16" in said
    await lab.run(4, "k3s-uninstall.sh")
    assert await members(lab, 1) == ["m1", "m2", "m3"]
    agent = f"K3S_URL={FIRST} K3S_TOKEN=the-servers sh -s - agent --node-ip 10.0.0.5 {NODE}"
    await lab.run(1, "k3s kubectl delete node m4 --ignore-not-found")
    await lab.until(4, f"{lab.install} {agent}")
    await ready(lab, 1, "m4")


async def test_two_go_on_without_the_first_and_the_agent_with_them(lab):
    await lab.until(4, "grep 10.0.0.4:6443 /var/lib/rancher/k3s/agent/etc/k3s-agent-load-balancer.json")
    await lab.backend.power_off(1)
    await lab.until(2, "k3s kubectl create configmap written --from-literal=by=two")
    assert await lab.until(3, "k3s kubectl get configmap written -o jsonpath={.data.by}") == "two"
    # The controller manager of another member is elected first. Its grace period begins only then. By its
    # end, a node without an API server would be lost, too.
    lease = "k3s kubectl --namespace=kube-system get lease kube-controller-manager"
    await lab.until(2, f"{lease} -o jsonpath={{.spec.holderIdentity}} | grep -v ^m1_", seconds=120)
    await lab.run(2, "k3s kubectl wait --for=condition=Ready=Unknown node/m1 --timeout=120s", seconds=150)
    await lab.run(3, "k3s kubectl wait --for=condition=Ready node/m2 node/m3 node/m4 --timeout=1s")
    # nor does it take the first to start again
    await lab.run(4, "systemctl restart k3s-agent", seconds=90)
    await ready(lab, 2, "m4")


async def test_a_lost_server_leaves_with_its_node_and_another_takes_its_place(lab):
    await lab.run(2, "k3s kubectl delete node m1 --timeout=60s", seconds=90)
    assert await members(lab, 3) == ["m2", "m3"]
    await lab.backend.power_on(1)
    await lab.run(1, "k3s-uninstall.sh", seconds=90)
    await join(lab, 1, SECOND)
    await ready(lab, 1, "m1", "m2", "m3", "m4")
    assert await members(lab, 2) == ["m1", "m2", "m3"]


async def test_a_cold_start_needs_no_first_server(lab):
    await asyncio.gather(*(lab.backend.power_off(number) for number in (1, 2, 3)))
    await asyncio.gather(*(lab.backend.power_on(number) for number in (2, 3)))
    await lab.until(3, "k3s kubectl get --raw /readyz", seconds=120)
    await ready(lab, 3, "m2", "m3", "m4")
