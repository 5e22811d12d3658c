from contextlib import ExitStack
from ipaddress import IPv4Address

import pytest

from hetzner_machines import resolver
from tests.e2e.conftest import eventually
from tests.internet_stage import FAR, HOST, Stage

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

NAME = "far.example"
ASK = ("curl", "-sS", "--http0.9", "--max-time", "5")  # at first there may be no response
POD = ("kubectl", "exec", "tools", "--")


def test_machines_and_pods_get_out_as_long_as_somebody_asks_for_it(clone, kubernetes_version, tmp_path):
    clone.dev("image", "--output", str(tmp_path / "ccm.tar"))  # what it is made of may be on the Internet
    servers = [server for server in resolver.of_this_host() if _is_ipv4(server)]
    with ExitStack() as held:
        stage = Stage(held)
        stage.serve(stage.outside)
        stage.know(NAME, FAR, servers)
        try:
            stage.as_host(lambda: life(clone, kubernetes_version, names=bool(servers)))
            assert stage.tables() == ""
            assert stage.forwards("wan") == "0"
        finally:
            stage.as_host(lambda: clone.dev("down", "--force", check=False))


def life(clone, version, *, names):
    def on_machine(*command):
        return clone.dev("ssh", "worker-1", *command, check=False).stdout.strip()

    def in_pod(*command):
        return clone.dev(*POD, *command, check=False).stdout.strip()

    clone.dev("up", "--workers", "1", "--kubernetes", version)
    clone.dev("kubectl", "run", "tools", "--image=ccm-from-scratch.local/tools:1")
    clone.dev("kubectl", "wait", "--for=condition=Ready", "pod/tools", "--timeout=60s")
    clone.dev(
        "kubectl", "--namespace=kube-system", "rollout", "status", "deployment/coredns", "--timeout=60s"
    )
    assert not in_pod("dig", "+short", NAME)
    for ask in (on_machine, in_pod):
        assert "curl: (" in ask(*ASK, f"http://{FAR}/"), "nothing leads there"
    clone.dev("up", "--internet")
    for ask in (on_machine, in_pod):
        assert ask(*ASK, f"http://{FAR}/") == HOST
        if names:  # of the Pod by CoreDNS
            # CoreDNS caches the negative answer for some seconds
            eventually(lambda ask=ask: ask(*ASK, f"http://{NAME}/") == HOST, 60, "the name is known")
    assert "nothing is left" in clone.dev("down").stdout


def _is_ipv4(address):
    try:
        return bool(IPv4Address(address))
    except ValueError:
        return False
