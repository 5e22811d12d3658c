"""Whatever is asked in whatever order: nothing dangles, no address is given twice, the file equals memory."""

from __future__ import annotations

import asyncio
import tempfile
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from cloud_openapi import description
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import OPERATIONS
from hetzner_emulator.backend import BackendError, RecordsBackend
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
from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.state.records import RECORDS
from hetzner_emulator.state.store import Store
from hetzner_emulator.wire.reply import Reply

FIRST = {
    kind.KIND: kind.FIRST_ID
    for kind in (
        Server,
        Network,
        LoadBalancer,
        PlacementGroup,
        Firewall,
        PrimaryIp,
        Volume,
        FloatingIp,
        Snapshot,
    )
}
number = st.integers(0, 2)
name = st.sampled_from("abc")


def known(kind: str, index: int) -> int:
    return FIRST[kind] + index


def target(index: int, *, private: bool) -> dict[str, Any]:
    return {"type": "server", "server": {"id": known("server", index)}, "use_private_ip": private}


def act(kind: str, path: str, action: str, body: dict[str, Any], index: int) -> tuple[str, str, Any]:
    return "POST", f"/{path}/{known(kind, index)}/actions/{action}", body


requests = st.one_of(
    st.builds(
        lambda n, nets, group, on: (
            "POST",
            "/servers",
            {
                "name": n,
                "server_type": "cx23",
                "image": "debian-12",
                "networks": [known("network", i) for i in nets],
                "placement_group": group and known("placement_group", group - 1),
                "start_after_create": on,
            },
        ),
        name,
        st.lists(number, max_size=2),
        st.none() | st.integers(1, 2),
        st.booleans(),
    ),
    st.builds(
        lambda n, i: (
            "POST",
            "/networks",
            {
                "name": n,
                "ip_range": f"10.{i}.0.0/16",
                "subnets": [{"type": "cloud", "network_zone": "eu-central", "ip_range": f"10.{i}.0.0/29"}],
            },
        ),
        name,
        number,
    ),
    st.builds(lambda n: ("POST", "/placement_groups", {"name": n, "type": "spread"}), name),
    st.builds(
        lambda n, i, p, net: (
            "POST",
            "/load_balancers",
            {
                "name": n,
                "load_balancer_type": "lb11",
                "location": "fsn1",
                "targets": [target(i, private=p)],
                "network": net and known("network", net - 1),
            },
        ),
        name,
        number,
        st.booleans(),
        st.none() | st.integers(1, 2),
    ),
    st.builds(
        lambda n, i: (
            "POST",
            "/firewalls",
            {"name": n, "apply_to": [{"type": "server", "server": {"id": known("server", i)}}]},
        ),
        name,
        number,
    ),
    st.builds(
        lambda kind, path, i: ("DELETE", f"/{path}/{known(kind, i)}", None),
        st.just("server"),
        st.just("servers"),
        number,
    ),
    st.builds(lambda i: ("DELETE", f"/networks/{known('network', i)}", None), number),
    st.builds(lambda i: ("DELETE", f"/load_balancers/{known('load_balancer', i)}", None), number),
    st.builds(
        lambda i, net: act("server", "servers", "attach_to_network", {"network": known("network", net)}, i),
        number,
        number,
    ),
    st.builds(
        lambda i, net: act("server", "servers", "detach_from_network", {"network": known("network", net)}, i),
        number,
        number,
    ),
    st.builds(
        lambda i, a: act("server", "servers", a, {}, i), number, st.sampled_from(["poweroff", "poweron"])
    ),
    st.builds(
        lambda i, net: act(
            "load_balancer", "load_balancers", "attach_to_network", {"network": known("network", net)}, i
        ),
        number,
        number,
    ),
    st.builds(
        lambda i, t, p, a: act("load_balancer", "load_balancers", a, target(t, private=p), i),
        number,
        number,
        st.booleans(),
        st.sampled_from(["add_target", "remove_target"]),
    ),
    st.builds(
        lambda i, r, g: act(
            "network",
            "networks",
            "add_route",
            {"destination": f"10.24{r}.0.0/24", "gateway": f"10.{i}.0.{g + 2}"},
            i,
        ),
        number,
        number,
        number,
    ),
    st.builds(
        lambda i, net: act("network", "networks", "delete_subnet", {"ip_range": f"10.{net}.0.0/29"}, i),
        number,
        number,
    ),
    st.builds(
        lambda n, i: ("POST", "/volumes", {"name": n, "size": 10, "server": known("server", i)}), name, number
    ),
    st.builds(
        lambda i: ("POST", "/floating_ips", {"type": "ipv4", "server": known("server", i)}),
        number,
    ),
    st.builds(
        lambda i, kind: act("server", "servers", "create_image", {"type": kind}, i),
        number,
        st.sampled_from(["snapshot", "backup"]),
    ),
    st.builds(
        lambda i, a: act("server", "servers", a, {}, i),
        number,
        st.sampled_from(["enable_backup", "disable_backup"]),
    ),
    *(
        st.builds(
            lambda kind, path, i, t, a: act(kind, path, a, {"server": known("server", t)}, i),
            st.just(kind),
            st.just(path),
            number,
            number,
            st.sampled_from(actions),
        )
        for kind, path, actions in (
            ("volume", "volumes", ["attach", "detach"]),
            ("floating_ip", "floating_ips", ["assign", "unassign"]),
        )
    ),
    st.builds(
        lambda place, i: ("DELETE", f"/{place[1]}/{known(place[0], i)}", None),
        st.sampled_from([("volume", "volumes"), ("floating_ip", "floating_ips"), ("image", "images")]),
        number,
    ),
)


# What is there before; so most requests find something.
PRELUDE: list[tuple[str, str, Any]] = [
    *(
        (
            "POST",
            "/networks",
            {
                "name": f"first{i}",
                "ip_range": f"10.{i}.0.0/16",
                "subnets": [{"type": "cloud", "network_zone": "eu-central", "ip_range": f"10.{i}.0.0/29"}],
            },
        )
        for i in range(2)
    ),
    ("POST", "/placement_groups", {"name": "first", "type": "spread"}),
    (
        "POST",
        "/servers",
        {
            "name": "first",
            "server_type": "cx23",
            "image": "debian-12",
            "networks": [known("network", 0)],
            "placement_group": known("placement_group", 0),
        },
    ),
    (
        "POST",
        "/firewalls",
        {"name": "first", "apply_to": [target(0, private=False) | {"use_private_ip": None}]},
    ),
    (
        "POST",
        "/load_balancers",
        {
            "name": "first",
            "load_balancer_type": "lb11",
            "location": "fsn1",
            "network": known("network", 0),
            "targets": [target(0, private=True)],
        },
    ),
    ("POST", "/zones", {"name": "example.com", "mode": "primary"}),
    ("POST", "/volumes", {"name": "first", "size": 10, "server": known("server", 0)}),
    ("POST", "/floating_ips", {"type": "ipv4", "server": known("server", 0)}),
]


class Moody(RecordsBackend):
    """Takes its time, and fails now and then."""

    def __init__(self, failures: list[bool]) -> None:
        super().__init__()
        self.failures, self.turns = failures, 0

    async def _work(self) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if self.failures and self.failures.pop():
            raise BackendError("the world below is moody")

    async def create_machine(self, machine: Any) -> None:
        await self._work()

    async def attach(self, server_id: int, interface: Any, network: Any) -> None:
        await self._work()

    async def detach(self, server_id: int, network_id: int) -> None:
        await self._work()

    async def put_load_balancer(self, load_balancer: Any) -> None:
        await self._work()

    async def delete_machine(self, server_id: int) -> None:
        await self._work()

    async def put_volume(self, volume: Any) -> None:
        await self._work()

    async def delete_volume(self, volume_id: int) -> None:
        await self._work()

    async def attach_volume(self, server_id: int, volume: Any) -> None:
        await self._work()

    async def detach_volume(self, server_id: int, volume_id: int) -> None:
        await self._work()

    async def create_image(self, image_id: int, server_id: int) -> float:
        await self._work()
        return 0.0

    async def delete_image(self, image_id: int) -> None:
        await self._work()

    async def assign_floating_ip(self, server_id: int, address: str) -> None:
        await self._work()

    async def unassign_floating_ip(self, server_id: int, address: str) -> None:
        await self._work()


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
        addresses = [
            ip for m in members(store, network.id) for ip in (m.attachment.ip, *m.attachment.alias_ips)
        ]
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
def test_nothing_dangles(script, failures):
    discover()
    router, official = Router(OPERATIONS.values()), description()

    async def run(path: Path) -> None:
        config = CloudConfig(tokens={}, state_file=path, rate_limit=0)
        cloud = Cloud(config, Moody(failures), lambda: 1_800_000_000.0, Random(1))
        await cloud.start()
        for method, url, body in [*PRELUDE, *script]:
            reply = await perform(cloud, router, method, url, body)
            assert reply.status != 500 or "moody" in str(reply.body)
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
OTHERS: list[tuple[str, str, Any]] = [
    (
        "POST",
        "/servers",
        {"name": name, "server_type": "cx23", "image": "debian-12", "networks": [known("network", 0)]},
    )
    for name in ("second", "third")
]
concerned = st.one_of(
    st.builds(lambda i: ("DELETE", f"/servers/{known('server', i)}", None), number),
    st.builds(lambda i: ("DELETE", f"/networks/{known('network', i)}", None), number),
    st.builds(
        lambda t, p, a: act("load_balancer", "load_balancers", a, target(t, private=p), 0),
        number,
        st.booleans(),
        st.sampled_from(["add_target", "remove_target"]),
    ),
    st.builds(
        lambda kind, path, i, net: act(
            kind, path, "attach_to_network", {"network": known("network", net)}, i
        ),
        *(st.just("server"), st.just("servers"), number, number),
    ),
    st.builds(
        lambda net, a: act(
            "load_balancer", "load_balancers", f"{a}_network", {"network": known("network", net)}, 0
        ),
        number,
        st.sampled_from(["attach_to", "detach_from"]),
    ),
)


@given(
    st.lists(concerned, min_size=3, max_size=12),
    st.lists(st.sampled_from([False, False, False, True]), max_size=10),
    st.sampled_from([0, 40, 120]),
)
def test_nothing_dangles_after_changes_that_overlap(script, failures, turns):
    discover()
    router = Router(OPERATIONS.values())

    async def run() -> None:
        backend = Moody([])
        cloud = Cloud(CloudConfig(tokens={}, rate_limit=0), backend, lambda: 1_800_000_000.0, Random(1))
        await cloud.start()
        for request in [*PRELUDE, *OTHERS]:
            await perform(cloud, router, *request)
        backend.failures, backend.turns = failures, turns
        for request in script:
            reply = await perform(cloud, router, *request, settle=False)
            assert reply.status != 500 or "moody" in str(reply.body)
        while any(action.status == "running" for action in cloud.store.all(Action)):
            await cloud.actions.settle()
        for name in LISTS:
            await perform(cloud, router, "GET", f"/{name}", None)
        check(cloud)
        await cloud.stop()

    asyncio.run(run())
