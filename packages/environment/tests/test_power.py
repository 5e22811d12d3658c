import pytest
from yarl import URL

from hetzner_emulator.address import Address
from hetzner_emulator.testing.cloud import HetznerCloud
from sandbox.api import Api
from sandbox.errors import SandboxError
from sandbox.overview import powered_off

SERVER = {"server_type": "cx23", "image": "debian-12"}


@pytest.fixture
def api(hetzner_cloud: HetznerCloud) -> Api:
    return Api(Address(URL(hetzner_cloud.endpoint).port, hetzner_cloud.token))


def test_servers_that_are_off(api, hetzner_cloud):
    server, _ = (api.call("POST", "/servers", {"name": name, **SERVER})["server"] for name in "ab")
    api.call("POST", f"/servers/{server['id']}/actions/poweroff", {})
    assert powered_off(api) == {str(server["id"])}
    assert powered_off(Api(Address(URL(hetzner_cloud.endpoint).port, "x" * 64))) == set()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"code": "locked"}, "the cloud answers 423, fault injected by the sandbox"),
        ({"code": "unavailable", "raw": True}, "the cloud answers 503, Service Unavailable"),
        ({"drop": "before"}, "the response of the cloud can't be decoded"),
        ({"truncated_body": True}, "the response of the cloud can't be decoded"),
    ],
    ids=["refused", "a page", "cut", "half an answer"],
)
def test_injected_errors_in_our_commands(api, hetzner_cloud, fault, said):
    hetzner_cloud.faults.add(path="/servers", **fault)
    with pytest.raises(SandboxError, match=rf"^GET /servers\?\S+: {said}.*'\./dev faults' lists"):
        list(api.list("servers"))
    assert powered_off(api) == set()
