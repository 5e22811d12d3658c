import asyncio
import copy
import re
from random import Random
from typing import Any

import msgspec
from cloud_emulator import RULE
from cloud_openapi import description
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict
from test_cloud_invariants import PRELUDE, perform

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import OPERATIONS
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.http.dispatch import error_reply
from hetzner_emulator.http.router import Router
from hetzner_emulator.resources import discover
from hetzner_emulator.state.records import RECORDS
from hetzner_emulator.wire.reply import Reply

discover()
NAMES = re.findall(
    r"\w+",
    """
    name labels type ip ip_range network networks server id targets services rules apply_to
    remove_from firewall firewalls protocol listen_port destination_port health_check http
    certificates interval timeout retries port use_private_ip label_selector selector algorithm
    load_balancer_type location network_zone public_interface server_type image user_data ssh_keys
    placement_group public_net enable_ipv4 ipv4 start_after_create subnets routes destination
    gateway vswitch_id alias_ips dns_ptr delete rebuild iso upgrade_disk assignee_id assignee_type
    auto_delete public_key certificate private_key domain_names direction source_ips description
    mode ttl primary_nameservers address rrsets records value comment zonefile change
    """,
)
WORDS = re.findall(
    r"\S+",
    """
    a tcp http https ip server label_selector managed uploaded ipv4 ipv6 in out fsn1 cx23 debian-12 lb11 cloud
    eu-central 10.0.0.0/24 10.0.0.5 0.0.0.0/0 spread a=b round_robin 2001:db8::1 -
    example.com primary secondary www @ A TXT CNAME
    """,
)
FIRST_IDS = [kind.FIRST_ID for kind in RECORDS.values()]
QUERIES = ("page", "per_page", "sort", "name", "label_selector", "id", "status", "type", "start", "end")
VALUES = ("1", "id", "name:desc", "a", "running", "cpu", "2026-01-01T00:00:00Z", "x=y", "-1", "(")
SERVICE = {"protocol": "http", "listen_port": 81, "destination_port": 80, "http": {"certificates": [1]}}
RRSET = {"name": "www", "type": "A", "ttl": 60, "records": [{"value": "10.0.0.5", "comment": "a"}]}
NAMESERVER = {"address": "10.0.0.5", "port": 53}
RRSET_PATH = "/zones/{id_or_name}/rrsets/{rr_name}/{rr_type}"
GOOD = [
    *[(url, body) for _method, url, body in PRELUDE],
    ("/servers/{id}/actions/attach_to_network", {"network": 2000002, "ip": "10.1.0.3", "alias_ips": []}),
    ("/servers/{id}/actions/detach_from_network", {"network": 2000001}),
    ("/servers/{id}/actions/change_alias_ips", {"network": 2000001, "alias_ips": ["10.0.0.6"]}),
    ("/servers/{id}/actions/change_dns_ptr", {"ip": "203.0.113.4", "dns_ptr": "a"}),
    ("/servers/{id}/actions/rebuild", {"image": "debian-12", "user_data": "x"}),
    ("/servers/{id}", {"name": "x", "labels": {"a": "b"}}),
    ("/networks/{id}/actions/add_route", {"destination": "10.9.0.0/16", "gateway": "10.0.0.3"}),
    ("/networks/{id}/actions/delete_route", {"destination": "10.9.0.0/16", "gateway": "10.0.0.3"}),
    ("/networks/{id}/actions/add_subnet", {"type": "cloud", "network_zone": "eu-central"}),
    ("/networks/{id}/actions/delete_subnet", {"ip_range": "10.0.0.0/29"}),
    ("/networks/{id}/actions/change_ip_range", {"ip_range": "10.0.0.0/12"}),
    ("/load_balancers/{id}/actions/add_service", SERVICE),
    ("/load_balancers/{id}/actions/update_service", SERVICE),
    ("/load_balancers/{id}/actions/delete_service", {"listen_port": 81}),
    ("/load_balancers/{id}/actions/add_target", {"type": "ip", "ip": {"ip": "10.0.0.3"}}),
    ("/load_balancers/{id}/actions/remove_target", {"type": "server", "server": {"id": 4000001}}),
    ("/load_balancers/{id}/actions/detach_from_network", {"network": 2000001}),
    ("/load_balancers/{id}/actions/change_dns_ptr", {"ip": "203.0.113.5", "dns_ptr": "a"}),
    ("/load_balancers/{id}/actions/change_type", {"load_balancer_type": "lb21"}),
    ("/firewalls/{id}/actions/set_rules", {"rules": [RULE]}),
    ("/primary_ips", {"name": "i", "type": "ipv4", "location": "fsn1", "assignee_type": "server"}),
    ("/primary_ips/{id}/actions/assign", {"assignee_id": 4000001, "assignee_type": "server"}),
    ("/certificates", {"name": "c", "type": "managed", "domain_names": ["a.de"]}),
    ("/zones", {"name": "example.org", "mode": "secondary", "primary_nameservers": [NAMESERVER]}),
    ("/zones", {"name": "example.org", "mode": "primary", "ttl": 60, "rrsets": [RRSET]}),
    ("/zones/{id_or_name}/actions/import_zonefile", {"zonefile": "www A 10.0.0.5"}),
    ("/zones/{id_or_name}/rrsets", RRSET),
    (f"{RRSET_PATH}/actions/add_records", {"ttl": 60, "records": RRSET["records"]}),
    (f"{RRSET_PATH}/actions/remove_records", {"records": RRSET["records"]}),
    (f"{RRSET_PATH}/actions/update_records", {"records": RRSET["records"]}),
]
OWNERS = {
    "servers": 4000001,
    "networks": 2000001,
    "load_balancers": 3000001,
    "firewalls": 7000001,
    "primary_ips": 6000001,
    "zones": 10000001,
}

identities = st.sampled_from([*map(str, FIRST_IDS), "0", "x", "114690387", "1", "٣", ""])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 70000),
    st.sampled_from(FIRST_IDS),
    st.sampled_from(["", " ", *WORDS]),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)
bodies = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=14,
)
objects = st.dictionaries(st.sampled_from(NAMES), bodies, max_size=7)
queries = st.lists(st.tuples(st.sampled_from(QUERIES), st.sampled_from(VALUES)), max_size=4)
operations = st.sampled_from(sorted(OPERATIONS))
Request = tuple[tuple[str, str], str, Any, list[tuple[str, str]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in nested JSON a value can be replaced."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key in keys for place in places(value[key], (*path, key))]


@st.composite
def nearly_good(draw: st.DrawFn) -> Request:
    """A good request with one value replaced."""
    path, good = draw(st.sampled_from(GOOD))
    key = ("PUT" if path == "/servers/{id}" else "POST", path)
    body = copy.deepcopy(good)
    if "name" in body:
        body["name"] = draw(st.sampled_from("abc"))
    *steps, last = draw(st.sampled_from(places(body)))
    holder = body
    for step in steps:
        holder = holder[step]
    holder[last] = draw(bodies)
    return key, str(OWNERS.get(key[1].split("/")[1], 0)), body, []


async def one(cloud: Cloud, request: Request) -> None:
    key, identity, body, query = request
    parameters = dict.fromkeys(("id", "action_id", "id_or_name", "action"), identity)
    parameters |= {"rr_name": "www", "rr_type": "A"}
    path = key[1]
    for parameter, value in parameters.items():
        path = path.replace(f"{{{parameter}}}", value)
    call = Call(cloud, "p", parameters, MultiDict(query), body, "http://test")
    try:
        reply: Reply = await OPERATIONS[key].handler(call)
    except ApiError as error:
        reply = error_reply(error)
    await cloud.actions.settle()
    assert reply.status != 500
    actions = cloud.store.export()["action"]
    assert not [action for action in actions if (action.error or [""])[0] == "server_error"]
    official = description()
    if official is not None and identity and reply.status != 404:
        raw = b"" if reply.body is None else msgspec.json.encode(reply.body)
        assert official.problems(key[0], path, reply.status, raw) == []


async def run(script: list[Request]) -> None:
    cloud = Cloud(CloudConfig(tokens={}), RecordsBackend(), lambda: 1_800_000_000.0, Random(1))
    await cloud.start()
    router = Router(OPERATIONS.values())
    for method, url, body in PRELUDE:
        await perform(cloud, router, method, url, body)
    for request in script:
        await one(cloud, request)
    await cloud.stop()


@given(st.lists(st.tuples(operations, identities, objects | bodies, queries), min_size=1, max_size=5))
def test_random_requests_are_no_internal_errors(script):
    asyncio.run(run(script))


@given(st.lists(nearly_good(), min_size=1, max_size=6))
def test_nearly_valid_requests_are_no_internal_errors(script):
    asyncio.run(run(script))
