from dataclasses import replace

import pytest

from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface
from sandbox.hollow.backend import HollowBackend

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NETWORK = NetworkSpec(1, "net", "10.0.0.0/8", ("10.0.0.0/24",), ())
INTERFACE = PrivateInterface(1, "10.0.0.2", (), "86:00:00:00:00:01")
SERVER = MachineSpec(7, "worker-1", "203.0.113.7", None, 2, 4.0, ())


@pytest.fixture
async def backend(kubernetes, tmp_path):
    backend = HollowBackend(kubernetes, tmp_path / "control-plane", heartbeat=0.5)
    await backend.start([NETWORK], {}, lambda _server, _state: None)
    yield backend
    await backend.stop()


def nodes(backend):
    listed = backend.control_plane.api().get("/api/v1/nodes")
    return {node["metadata"]["name"]: node for node in listed["items"]}


async def test_a_restarted_sandbox_keeps_running_servers(backend, kubernetes, tmp_path):
    await backend.create_machine(SERVER)
    await backend.power_on(SERVER.id)
    await backend.attach(SERVER.id, INTERFACE, NETWORK)
    uid = nodes(backend)["worker-1"]["metadata"]["uid"]
    await backend.stop()
    again = HollowBackend(kubernetes, tmp_path / "control-plane", heartbeat=0.5)
    spec = replace(SERVER, private=(INTERFACE,))
    await again.start([NETWORK], {spec: True}, lambda _server, _state: None)
    try:
        assert nodes(again)["worker-1"]["metadata"]["uid"] == uid
    finally:
        await again.stop()


async def test_a_server_that_is_off_sends_no_heartbeat(backend):
    await backend.create_machine(SERVER)
    await backend.attach(SERVER.id, INTERFACE, NETWORK)
    assert nodes(backend) == {}
    await backend.power_on(SERVER.id)
    await backend.delete_machine(SERVER.id)
    assert backend.heartbeats == []
