import itertools
from http.server import BaseHTTPRequestHandler

import pytest
from control_servers import at_cloud

from ccm_pulumi.lib.cloud_api import Cloud, Patience
from ccm_pulumi.lib.errors import CloudError, InfraError
from ccm_pulumi.servers.server_state import ServerStateProvider, change_type, next_step, settle
from tests.http_server import Json, serving
from tests.pulumi_lab import TOKEN

QUICK = Patience(pause=0.01)
IN, OTHER, NONE = [{"network": 7, "ip": "10.0.0.2"}], [{"network": 8, "ip": "10.0.0.2"}], []
ATTACH = "attach_to_network"


@pytest.mark.parametrize(
    ("places", "status", "ip", "step"),
    [
        (IN, "running", None, None),
        (IN, "running", "10.0.0.2", None),
        (IN, "off", "10.0.0.2", ("poweron", {})),
        (IN, "off", "10.0.0.3", ("detach_from_network", {"network": 7})),
        (OTHER, "running", "10.0.0.2", (ATTACH, {"network": 7, "ip": "10.0.0.2"})),
        (NONE, "off", None, (ATTACH, {"network": 7, "ip_range": "10.0.0.0/24"})),
    ],
)
def test_what_a_server_needs_next(places, status, ip, step):
    assert next_step({"private_net": places, "status": status}, 7, "10.0.0.0/24", ip) == step


class Site:
    def __init__(self, emulated):
        self._emulated, self.cloud = emulated, Cloud(emulated.endpoint, TOKEN)
        subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}
        body = {"name": "n", "ip_range": "10.0.0.0/8", "subnets": [subnet]}
        self.network = emulated.send("POST", "/networks", body)["network"]["id"]
        self.subnet_id, self.server = f"{self.network}-10.0.0.0/24", self.add("one")

    def add(self, name):
        body = {"name": name, "server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
        return str(self._emulated.send("POST", "/servers", body)["server"]["id"])

    def act(self, server, action, **body):
        self._emulated.send("POST", f"/servers/{server}/actions/{action}", body)

    def now(self):
        found = self._emulated.get(f"/servers/{self.server}")["server"]
        return found["status"], found["server_type"]["name"], [at["ip"] for at in found["private_net"]]

    def settle(self, ip=None, **patience):
        return settle(self.cloud, self.server, self.subnet_id, ip, Patience(pause=0.01, **patience))


@pytest.fixture
def site(cloud):
    return Site(cloud)


def test_a_server_comes_back_with_its_address(site):
    ip = site.settle()
    site.act(site.server, "poweroff")
    site.act(site.server, "detach_from_network", network=site.network)
    assert site.settle(ip) == ip
    assert site.now() == ("running", "cpx22", [ip])
    # it is in the network with another address
    assert site.settle("10.0.0.77") == "10.0.0.77"
    with pytest.raises(CloudError, match=f"server {site.server} is not running"):
        site.settle("10.0.0.78", seconds=0)


def test_an_address_that_another_server_has_is_left_to_it(site):
    ip = site.settle()
    site.act(site.server, "detach_from_network", network=site.network)
    site.act(site.add("stranger"), "attach_to_network", network=site.network, ip=ip)
    with pytest.raises(InfraError, match=r"stranger .* has the address now"):
        site.settle(ip)
    assert site.now()[2] == []


def test_a_server_runs_after_another_type_and_after_a_refused_one(site):
    for _ in range(2):
        change_type(site.cloud, site.server, "cpx32", QUICK)
        assert site.now()[:2] == ("running", "cpx32")
    with pytest.raises(CloudError):
        change_type(site.cloud, site.server, "cax11", QUICK)
    assert site.now()[:2] == ("running", "cpx32")
    change_type(site.cloud, "4711", "cpx32", QUICK)  # deleted by hand


def test_a_change_of_the_type_that_does_not_end_is_an_error():
    class Slow(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            server = {"status": "off", "server_type": {"name": "cpx22"}}
            self.answer(200, {"server": server, "action": {"id": 1, "status": "running"}})

        do_POST = do_GET  # noqa: N815

    patience = Patience(pause=0, now=itertools.count(0, 100).__next__)
    with serving(Slow) as port, pytest.raises(CloudError, match="the type of the server 1 within 1200 s"):
        change_type(Cloud(f"http://127.0.0.1:{port}", TOKEN), "1", "cpx32", patience)


def test_the_provider_sees_what_happened_and_repairs_it(site):
    provider = at_cloud(ServerStateProvider(), site.cloud.endpoint)
    wanted = {"server_id": site.server, "subnet_id": site.subnet_id, "subnet_range": "10.0.0.0/24"}
    wanted |= {"attached": True, "running": True, "types": ["cpx22", "cpx22"]}
    # a stack of an earlier version has the server without this resource
    assert provider.check({}, dict(wanted)).inputs["ip"] is None
    made = provider.create(dict(wanted)).outs
    assert provider.check({}, dict(wanted)).inputs["ip"] == made["ip"]
    assert provider.check(made, {**wanted, "subnet_range": "10.1.0.0/24"}).inputs["ip"] is None
    assert not provider.diff("1", provider.read("1", made).outs, wanted).changes
    site.act(site.server, "poweroff")
    site.act(site.server, "detach_from_network", network=site.network)
    seen = provider.read("1", made).outs
    assert (seen["attached"], seen["running"]) == (False, False)
    result = provider.diff("1", seen, wanted)
    assert (result.changes, result.replaces) == (True, [])
    another = {**wanted, "types": ["cpx32", "cpx32"]}
    assert provider.update("1", seen, another).outs["ip"] == made["ip"]
    assert site.now() == ("running", "cpx32", [made["ip"]])
    # only a type that is neither what was wanted nor what the server got is a new one
    provider.update("1", {**made, **another}, {**wanted, "types": ["cpx42", "cpx32"]})
    assert site.now()[1] == "cpx32"
