from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from infra.pod_routes import dead_routes

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
        route("10.0.64.0/24", "10.0.1.9"),  # not to our Pods
        route("10.0.0.0/16", "10.0.1.9"),  # not to them alone
        route("0.0.0.0/0", "10.0.1.9"),
        route("fd00::/64", "10.0.1.9"),
    ]
    assert dead_routes({"id": 7, "routes": [*others, *mine]}, PODS, SERVERS) == mine


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(2, 5))))
def test_a_route_by_a_server_that_is_there_or_to_other_ranges_stays(pairs):
    routes = [route(f"10.0.{third}.0/24", f"10.0.1.{last}") for third, last in pairs]
    dead = dead_routes({"id": 7, "routes": routes}, PODS, SERVERS)
    assert all(item["gateway"] != "10.0.1.2" and item["destination"].split(".")[2] >= "128" for item in dead)
    assert len(dead) == sum(third >= 128 and last != 2 for third, last in pairs)
