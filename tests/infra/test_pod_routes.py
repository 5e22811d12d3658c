import json
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Network

import pytest

from ccm_pulumi.lib.cloud_api import Cloud
from ccm_pulumi.servers.pod_routes import dead_routes, remove_routes
from tests.http_server import Json, serving

PODS = IPv4Network("10.0.128.0/17")
SERVERS = [
    {"private_net": [{"network": 7, "ip": "10.0.1.2"}]},
    {"private_net": [{"network": 8, "ip": "10.0.1.3"}]},
    {"private_net": []},
]


def route(destination, gateway):
    return {"destination": destination, "gateway": gateway}


def test_only_what_leads_to_our_pods_by_servers_that_are_gone_is_dead():
    mine = [route("10.0.128.0/24", "10.0.1.3"), route("10.0.255.0/24", "10.0.1.9")]
    others = [
        route("10.0.129.0/24", "10.0.1.2"),  # that server is there
        route("10.0.127.0/24", "10.0.1.9"),  # not to our Pods
        route("10.0.0.0/16", "10.0.1.9"),  # not to them alone
        route("0.0.0.0/0", "10.0.1.9"),
        route("fd00::/64", "10.0.1.9"),
    ]
    assert dead_routes({"id": 7, "routes": [*others, *mine]}, PODS, SERVERS) == mine


def test_a_route_by_an_alias_address_of_a_server_is_none_of_a_lost_one():
    servers = [{"private_net": [{"network": 7, "ip": "10.0.1.2", "alias_ips": ["10.0.1.9"]}]}]
    routes = [route("10.0.128.0/24", "10.0.1.9"), route("10.0.129.0/24", "10.0.1.8")]
    assert dead_routes({"id": 7, "routes": routes}, PODS, servers) == routes[1:]


@pytest.fixture
def cloud():
    """A cloud with the network 7, in which two routes lead nowhere; the second one can't be removed."""
    dead = [route("10.0.128.0/24", "10.0.1.9"), route("10.0.129.0/24", "10.0.1.9")]
    removed = []

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/v1/networks/"):
                known = self.path.endswith("/7")
                content = {"network": {"id": 7, "routes": dead}} if known else gone("not_found")
                return self.answer(200 if known else 404, content)
            return self.answer(200, {"servers": SERVERS, "meta": {"pagination": {"next_page": None}}})

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked == dead[1]:
                return self.answer(403, gone("forbidden"))
            removed.append(asked)
            return self.answer(201, {"action": {"id": 1, "status": "running"}})

    with serving(Asked) as port:
        yield Cloud(f"http://127.0.0.1:{port}/v1", "t" * 64), dead, removed


def gone(code):
    return {"error": {"code": code, "message": f"it is {code}"}}


def test_a_route_that_cannot_be_removed_is_reported_with_a_command_and_stops_no_other(cloud):
    at, dead, removed = cloud
    messages = []
    remove_routes(at, 7, PODS, messages.append)
    assert removed == dead[:1]
    (said,) = messages
    assert "hcloud network remove-route 7 --destination 10.0.129.0/24 --gateway 10.0.1.9" in said


def test_a_network_that_is_gone_has_no_routes(cloud):
    at, _, removed = cloud
    messages = []
    remove_routes(at, 8, PODS, messages.append)
    assert (removed, messages) == ([], [])
