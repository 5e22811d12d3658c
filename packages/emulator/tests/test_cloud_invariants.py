"""Whatever is asked in whatever order: nothing dangles, no address is given twice, the file equals memory."""

import asyncio
import tempfile
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from cloud_emulator import RecordingBackend
from cloud_openapi import description
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import OPERATIONS
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.http.dispatch import error_reply
from hetzner_emulator.http.router import Router
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.firewalls import Firewall
from hetzner_emulator.models.floating_ips import FloatingIp
from hetzner_emulator.models.images import Snapshot
from hetzner_emulator.models.load_balancers import LoadBalancer, certificates_of
from hetzner_emulator.models.networks import Network, members
from hetzner_emulator.models.placement_groups import PlacementGroup
from hetzner_emulator.models.primary_ips import PrimaryIp
from hetzner_emulator.models.servers import Server
from hetzner_emulator.models.volumes import Volume
from hetzner_emulator.models.zones import RrSet, Zone, rrsets_named
from hetzner_emulator.resources import discover
from hetzner_emulator.resources.networks.routes import NETWORKS
from hetzner_emulator.resources.servers.create import SERVERS
from hetzner_emulator.state.records import RECORDS
from hetzner_emulator.state.store import Store
from hetzner_emulator.wire.reply import Reply

discover()
FIRST = {kind: record.FIRST_ID for kind, record in RECORDS.items()}
number = st.integers(0, 2)
name = st.sampled_from("abc")
Request = tuple[str, str, Any]


def known(kind: str, index: int) -> int:
    return FIRST[kind] + index


def ids(kind: str) -> st.SearchStrategy[int]:
    return number.map(lambda index: known(kind, index))


def target(index: int, *, private: bool) -> dict[str, Any]:
    return {"type": "server", "server": {"id": known("server", index)}, "use_private_ip": private}


def subnets(index: int) -> dict[str, Any]:
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": f"10.{index}.0.0/29"}
    return {"ip_range": f"10.{index}.0.0/16", "subnets": [subnet]}


def create(path: str, body: st.SearchStrategy[Any]) -> st.SearchStrategy[Request]:
    return body.map(lambda body: ("POST", path, body))


def body(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A body whose fields are values or strategies."""
    return st.fixed_dictionaries(
        {name: one if isinstance(one, st.SearchStrategy) else st.just(one) for name, one in fields.items()}
    )


def act(kind: str, actions: str, body: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Request]:
    """One of some actions on an object of a kind."""
    return st.builds(
        lambda identity, action, body: ("POST", f"/{kind}s/{identity}/actions/{action}", body),
        ids(kind),
        st.sampled_from(actions.split()),
        st.just({}) if body is None else body,
    )


def delete(*kinds: str) -> st.SearchStrategy[Request]:
    return st.sampled_from(kinds).flatmap(
        lambda kind: ids(kind).map(lambda identity: ("DELETE", f"/{kind}s/{identity}", None))
    )


in_network = body(network=ids("network"))
at_server = body(server=ids("server"))
targets = st.builds(lambda index, private: target(index, private=private), number, st.booleans())
SERVER = {"server_type": "cx23", "image": "debian-12"}
new_server = body(
    name=name,
    **SERVER,
    networks=st.lists(ids("network"), max_size=2),
    placement_group=st.none() | ids("placement_group"),
    start_after_create=st.booleans(),
)
new_network = st.builds(lambda name, index: {"name": name, **subnets(index)}, name, number)
new_balancer = body(
    name=name,
    load_balancer_type="lb11",
    location="fsn1",
    targets=st.lists(targets, min_size=1, max_size=1),
    network=st.none() | ids("network"),
)
new_route = st.builds(
    lambda r, i, g: {"destination": f"10.24{r}.0.0/24", "gateway": f"10.{i}.0.{g + 2}"},
    number,
    number,
    number,
)
requests = st.one_of(
    create("/servers", new_server),
    create("/networks", new_network),
    create("/placement_groups", body(name=name, type="spread")),
    create("/load_balancers", new_balancer),
    create("/firewalls", body(name=name, apply_to=st.lists(targets, min_size=1, max_size=1))),
    create("/volumes", body(name=name, size=10, server=ids("server"))),
    create("/floating_ips", body(type="ipv4", server=ids("server"))),
    act("server", "attach_to_network detach_from_network", in_network),
    act("server", "poweroff poweron enable_backup disable_backup"),
    act("server", "create_image", st.sampled_from([{"type": "snapshot"}, {"type": "backup"}])),
    act("load_balancer", "attach_to_network", in_network),
    act("load_balancer", "add_target remove_target", targets),
    act("network", "add_route", new_route),
    act("network", "delete_subnet", number.map(lambda index: {"ip_range": f"10.{index}.0.0/29"})),
    act("volume", "attach detach", at_server),
    act("floating_ip", "assign unassign", at_server),
    delete("server", "network", "load_balancer", "volume", "floating_ip", "image"),
)


def new(path: str, **body: Any) -> Request:
    return ("POST", path, {"name": "first", **body})


BALANCER = {"load_balancer_type": "lb11", "location": "fsn1"}
IN_NETWORK = {"networks": [known("network", 0)]}
# The existing objects, so that most requests find something.
PRELUDE: list[Request] = [
    *(new("/networks", name=f"first{index}", **subnets(index)) for index in range(2)),
    new("/placement_groups", type="spread"),
    new("/servers", **SERVER, **IN_NETWORK, placement_group=known("placement_group", 0)),
    new("/firewalls", apply_to=[target(0, private=False)]),
    new("/load_balancers", **BALANCER, network=known("network", 0), targets=[target(0, private=True)]),
    new("/zones", name="example.com", mode="primary"),
    new("/volumes", size=10, server=known("server", 0)),
    new("/floating_ips", type="ipv4", server=known("server", 0)),
]


class Unreliable(RecordingBackend):
    """Yields to other tasks before each change, and fails some changes."""

    def __init__(self, failures: list[bool]) -> None:
        super().__init__()
        self.failures, self.turns = failures, 0

    async def before(self, name: str, *arguments: Any) -> None:
        if name not in {"put_network", "put_firewalls", "power_on", "power_off"}:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            if self.failures and self.failures.pop():
                raise BackendError("unreliable backend")


async def perform(
    cloud: Cloud, router: Router, method: str, path: str, body: Any, *, settle: bool = True
) -> Reply:
    match = router.match(path)
    assert match is not None, path
    call = Call(cloud, "p", match.parameters, MultiDict(), body or {}, "http://test")
    try:
        reply = await match.operations[method].handler(call)
    except ApiError as error:
        reply = error_reply(error)
    if settle:
        await cloud.actions.settle()
    cloud.store.commit()
    return reply


def check(cloud: Cloud) -> None:
    store = cloud.store
    servers = {server.id: server for server in store.all(Server)}
    for network in store.all(Network):
        attachments = [member.attachment for member in members(store, network.id)]
        addresses = [ip for one in attachments for ip in (one.ip, *one.alias_ips)]
        assert len(set(addresses)) == len(addresses)
        subnets = [IPv4Network(subnet.ip_range) for subnet in network.subnets]
        assert all(any(IPv4Address(ip) in subnet for subnet in subnets) for ip in addresses)
    for holder in [*servers.values(), *store.all(LoadBalancer)]:
        assert all(store.find(Network, attachment.network) for attachment in holder.attachments)
        assert all(attachment.status == "ok" for attachment in holder.attachments)
    for group in store.all(PlacementGroup):
        assert {s.id for s in servers.values() if s.placement_group == group.id} == set(group.servers)
    for firewall in store.all(Firewall):
        assert set(firewall.servers) <= set(servers)
    for balancer in store.all(LoadBalancer):
        assert {t.server for t in balancer.targets if t.server} <= set(servers)
        used = {c for service in balancer.services for c in certificates_of(service)}
        assert all(store.find(Certificate, identity) for identity in used)
    for zone in store.all(Zone):
        if zone.mode == "primary":
            assert {"SOA"} <= set(rrsets_named(store, zone, "@"))
    assert all(store.find(Zone, rrset.zone) for rrset in store.all(RrSet))
    for kind in RECORDS.values():
        everything = list(store.all(kind))
        assert {r.id for r in everything} == {r.id for r in store.of(kind, "p")}
        assert all(r in store.named(kind, "p", r.name) for r in everything)
        assert store.count(kind, "p") == len(everything)
    public = [ip.ip for kind in (PrimaryIp, FloatingIp) for ip in store.all(kind)]
    public += [b.ipv4 for b in store.all(LoadBalancer)]
    assert len(set(public)) == len(public)
    for ip in store.all(PrimaryIp):
        assert ip.assignee in servers
        assert ip.id in {servers[ip.assignee].ipv4, servers[ip.assignee].ipv6}
    assert not any(cloud.actions.locked("server", identity) for identity in servers)
    check_volumes_and_more(cloud, set(servers))
    check_kept_answers(cloud)


def check_volumes_and_more(cloud: Cloud, servers: set[int]) -> None:
    store = cloud.store
    for volume in store.all(Volume):
        assert (volume.status, volume.wanted_by) == ("available", None)
        assert volume.server is None or volume.server in servers
    assert {ip.server for ip in store.all(FloatingIp)} <= {*servers, None}
    assert {image.status for image in store.all(Snapshot)} <= {"available"}
    assert {image.bound_to for image in store.all(Snapshot)} <= {*servers, None}


def check_kept_answers(cloud: Cloud) -> None:
    for resource in (SERVERS, NETWORKS):  # whose answers are kept as long as nothing changes
        for entry in cloud.store.all(resource.kind):
            fresh = msgspec.json.decode(msgspec.json.encode(resource.wire(cloud, entry)))
            assert msgspec.json.decode(msgspec.json.encode(resource.encoded(cloud, entry))) == fresh


@given(st.lists(requests, max_size=25), st.lists(st.sampled_from([False, False, False, True]), max_size=30))
def test_invariants_hold_after_any_requests(script, failures):
    router, official = Router(OPERATIONS.values()), description()

    async def run(path: Path) -> None:
        config = CloudConfig(tokens={}, state_file=path, rate_limit=0)
        cloud = Cloud(config, Unreliable(failures), lambda: 1_800_000_000.0, Random(1))
        await cloud.start()
        for method, url, body in [*PRELUDE, *script]:
            reply = await perform(cloud, router, method, url, body)
            assert reply.status != 500 or "unreliable" in str(reply.body)
            if official is not None and reply.status != 404:
                raw = b"" if reply.body is None else msgspec.json.encode(reply.body)
                assert official.problems(method, url, reply.status, raw) == []
            check(cloud)
        before = cloud.store.export()
        await cloud.stop()
        again = Store(path)
        after = again.export()
        again.close()
        assert {k: {r.id: r for r in v} for k, v in after.items()} == {
            k: {r.id: r for r in v} for k, v in before.items()
        }

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "state.sqlite"))


LISTS = ("servers", "networks", "load_balancers", "firewalls", "volumes", "floating_ips", "primary_ips")
OTHERS = [new("/servers", name=name, **SERVER, **IN_NETWORK) for name in ("second", "third")]
concerned = st.one_of(
    delete("server", "network"),
    act("load_balancer", "add_target remove_target", targets),
    act("load_balancer", "attach_to_network detach_from_network", in_network),
    act("server", "attach_to_network", in_network),
)


@given(
    st.lists(concerned, min_size=3, max_size=12),
    st.lists(st.sampled_from([False, False, False, True]), max_size=10),
    st.sampled_from([0, 40, 120]),
)
def test_invariants_hold_after_concurrent_changes(script, failures, turns):
    router = Router(OPERATIONS.values())

    async def run() -> None:
        backend = Unreliable([])
        cloud = Cloud(CloudConfig(tokens={}, rate_limit=0), backend, lambda: 1_800_000_000.0, Random(1))
        await cloud.start()
        for request in [*PRELUDE, *OTHERS]:
            await perform(cloud, router, *request)
        backend.failures, backend.turns = failures, turns
        for request in script:
            reply = await perform(cloud, router, *request, settle=False)
            assert reply.status != 500 or "unreliable" in str(reply.body)
        while any(action.status == "running" for action in cloud.store.all(Action)):
            await cloud.actions.settle()
        for name in LISTS:
            await perform(cloud, router, "GET", f"/{name}", None)
        check(cloud)
        await cloud.stop()

    asyncio.run(run())
