import asyncio

import pytest
from control_servers import at_cloud

from ccm_pulumi.cluster.k3s_drift import API_SILENT
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider, Repair, repair_of
from ccm_pulumi.config.k3s import DATASTORE
from ccm_pulumi.lib.cloud_api import Cloud, call
from ccm_pulumi.lib.errors import HostKeyError, InfraError
from ccm_pulumi.servers.probe import DRIFT, Report
from ccm_pulumi.servers.server import BootProvider, last_rebuild
from hetzner_emulator.testing.cloud import HetznerCloud

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII"


@pytest.fixture
def cloud(hetzner_cloud: HetznerCloud) -> Cloud:
    return Cloud(hetzner_cloud.endpoint, hetzner_cloud.token)


@pytest.fixture
def rebuilt(cloud):
    body = {"name": "s", "server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    made = call(cloud, "POST", "/servers", body)["server"]["id"]
    assert last_rebuild(cloud, str(made)) == 0
    call(cloud, "POST", f"/servers/{made}/actions/rebuild", {"image": "ubuntu-24.04"})
    return str(made)


@pytest.fixture
def boot(cloud):
    return at_cloud(BootProvider(), cloud.endpoint, cloud.token)


@pytest.fixture
def props(host, rebuilt):
    return {"server_id": rebuilt, "address": host.address, "private_key": host.private_key}


async def test_the_key_of_a_rebuilt_server_is_noted_once(boot, cloud, props, server) -> None:
    state = {**props, "host_key": KEY}
    outs = (await asyncio.to_thread(boot.update, "", state, props)).outs
    assert outs["host_key"] == server[1]
    assert outs["rebuilt"] == last_rebuild(cloud, props["server_id"])
    # no rebuild since: only the known key is accepted
    with pytest.raises(HostKeyError):
        await asyncio.to_thread(boot.update, "", {**outs, "host_key": KEY}, props)


async def test_a_server_with_its_known_key_keeps_it_whatever_a_refresh_found(boot, props, server) -> None:
    """The key of its gateway was another one."""
    state = {**props, "host_key": server[1], DRIFT: ["another key"]}
    outs = (await asyncio.to_thread(boot.update, "", state, props)).outs
    assert outs == {**props, "host_key": server[1]}


async def test_without_a_token_no_other_key_is_accepted(host) -> None:
    props = {"server_id": "1", "address": host.address, "private_key": host.private_key}
    with pytest.raises(HostKeyError):
        await asyncio.to_thread(BootProvider().update, "", {**props, "host_key": KEY}, props)


def test_the_only_control_server_without_its_datastore_begins_no_cluster() -> None:
    props = {"server_id": "1", "address": "203.0.113.7", "private_key": "K", "private_ip": "10.0.0.2"}
    with pytest.raises(InfraError, match="hcloud server delete 1,"):
        K3sServerProvider()._has_lost_its_cluster(props, Report())


@pytest.mark.parametrize(
    ("found", "has_store", "unchanged", "waits", "repair"),
    [
        ([], True, True, True, Repair.NEVER),
        ([API_SILENT], True, True, False, Repair.NEVER),
        ([API_SILENT], True, True, True, Repair.NOW),
        (["k3s is inactive", API_SILENT], True, True, False, Repair.NOW),
        (["k3s is inactive", API_SILENT], False, True, False, Repair.LATER),
        (["k3s is inactive"], False, True, True, Repair.NOW),
        # another version is wanted, too
        ([], True, False, True, Repair.NOW),
        ([API_SILENT], False, False, False, Repair.LATER),
    ],
)
def test_when_a_control_server_is_repaired(found, has_store, unchanged, waits, repair) -> None:
    report = Report(files={DATASTORE: ""} if has_store else {})
    assert repair_of(found, report, unchanged=unchanged, waits=waits) is repair
