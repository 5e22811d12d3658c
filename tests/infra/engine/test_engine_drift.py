"""Drift: what somebody does to a cluster's servers in the cloud, or to its objects, never replaces a server.

Five clusters are in one program, so that one run of Pulumi tries five combinations of drift.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from k3s_standin.api import ApiError
from sandbox.kubernetes.controlplane import ControlPlane
from tests.pulumi_cloud import EmulatedCloud, lab_at, serve
from tests.pulumi_lab import Lab

EXAMPLES = settings().max_examples
# Some 15 s for each run of Pulumi with its preview, and ten times that on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(max(600, 30 * EXAMPLES))]

CLUSTERS = {"one-a": 1, "one-b": 1, "one-c": 1, "three-a": 3, "three-b": 3}
PROGRAM = """
import dataclasses, json
import pulumi_kubernetes
from ccm_pulumi.components import HetznerNetwork, HetznerServers, settings
from ccm_pulumi.cluster.identity import ClusterIdentity
from ccm_pulumi.addons.kured import Kured
from ccm_pulumi.config.reboot_window import RebootWindow
from seats import Seat

E = os.environ.get
for name, count in json.loads(E("CLUSTERS")).items():
    wanted = settings(
        cluster_name=name, ssh_allowed_cidrs="any", worker_count=1, image=E("IMAGE", "ubuntu-24.04"),
        network_cidr="10.0.0.0/8", cluster_cidr="10.64.0.0/16",
        allow_deletion_of=json.loads(E("ALLOW", "[]")),
    )
    # these servers are only records
    wanted = dataclasses.replace(wanted, kubeconfig_path="a kubeconfig", control_count=int(E("COUNT", count)))
    network = HetznerNetwork(name, wanted)
    servers = HetznerServers(name, wanted, network)
    seats = {
        server.role: Seat(server.role, {
            "server_id": server.server.id, "private_ip": server.private_ip, "token": "T",
            "cluster_cidr": str(wanted.cluster_cidr), "service_cidr": "10.43.0.0/16",
            "install_url": "", "channel": "", "version": "v1.36.3+k3s1", "installation": None,
        }, O(deleted_with=server.server, delete_before_replace=True))
        for server in servers.controls
    }
    servers.guard_installations({role: (seat.server_id, seat.installation) for role, seat in seats.items()})
if E("CLUSTER"):
    provider = pulumi_kubernetes.Provider("p", kubeconfig=E("CLUSTER"), enable_patch_force=True)
    window = RebootWindow(("sat", "sun"), "02:00", "05:00", "Europe/Berlin")
    Kured("kured", "kured:1", window, drain_seconds=300, in_cluster=O(provider=provider), after=[])
"""
SERVER, SEAT = "hcloud:index/server:Server", "pulumi-python:dynamic:Seat"
KINDS = {
    "servers": SERVER,
    "networks": "hcloud:index/network:Network",
    "firewalls": "hcloud:index/firewall:Firewall",
    "ssh_keys": "hcloud:index/sshKey:SshKey",
    "placement_groups": "hcloud:index/placementGroup:PlacementGroup",
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IN_SYSTEM = "/namespaces/kube-system"
OBJECTS = (
    f"/api/v1{IN_SYSTEM}/serviceaccounts/kured",
    f"{RBAC}/clusterroles/kured",
    f"{RBAC}/clusterrolebindings/kured",
    f"{RBAC}{IN_SYSTEM}/roles/kured",
    f"{RBAC}{IN_SYSTEM}/rolebindings/kured",
    f"/apis/apps/v1{IN_SYSTEM}/daemonsets/kured",
)


@dataclass(frozen=True)
class Site:
    cloud: EmulatedCloud
    ids: dict[str, dict[str, str]]

    def any(self, collection: str, number: int) -> str:
        """Path of an object of the cluster."""
        found = sorted(self.ids[collection].values())
        return f"/{collection}/{found[number % len(found)]}"

    def act(self, path: str, action: str, **body: Any) -> None:
        self.cloud.send("POST", f"{path}/actions/{action}", body)

    def network(self) -> int:
        return int(*self.ids["networks"].values())

    def detach_all(self) -> None:
        for number in self.ids["servers"].values():
            with contextlib.suppress(requests.HTTPError):
                self.act(f"/servers/{number}", "detach_from_network", network=self.network())


def changed(collection: str, **body: Any) -> Callable[[Site, int], None]:
    return lambda site, number: site.cloud.send("PUT", site.any(collection, number), body)


def deleted(collection: str) -> Callable[[Site, int], None]:
    return lambda site, number: site.cloud.send("DELETE", site.any(collection, number))


def acted(action: str, *, off: bool = False, **body: Any) -> Callable[[Site, int], None]:
    def act(site: Site, number: int) -> None:
        path = site.any("servers", number)
        if off:
            site.act(path, "poweroff")
        site.act(path, action, **body)

    return act


def moved(site: Site, number: int) -> None:
    path = site.any("servers", number)
    site.act(path, "detach_from_network", network=site.network())
    site.act(path, "attach_to_network", network=site.network(), ip="10.0.0.200")


def out_of_the_firewall(site: Site, number: int) -> None:
    server = int(site.any("servers", number).rpartition("/")[2])
    targets = [{"type": "server", "server": {"id": server}}]
    site.act(site.any("firewalls", 0), "remove_from_resources", remove_from=targets)


def without_subnet(site: Site, _: int) -> None:
    site.detach_all()
    site.act(site.any("networks", 0), "delete_subnet", ip_range="10.0.0.0/24")


CLICKS: dict[str, Callable[[Site, int], None]] = {
    **{f"{kind} renamed": changed(kind, name="another") for kind in KINDS},
    **{f"{kind} with other labels": changed(kind, labels={"stray": "yes"}) for kind in KINDS},
    "server deleted": deleted("servers"),
    "key deleted": deleted("ssh_keys"),
    "network deleted": deleted("networks"),
    "server detached": lambda site, number: site.act(
        site.any("servers", number), "detach_from_network", network=site.network()
    ),
    "server attached elsewhere": moved,
    "all detached": lambda site, _: site.detach_all(),
    "subnet deleted": without_subnet,
    "server off": acted("poweroff"),
    "server rebuilt": acted("rebuild", image="debian-12"),
    "server rescaled": acted("change_type", off=True, server_type="cpx32", upgrade_disk=True),
    "server out of its group": acted("remove_from_placement_group", off=True),
    "server protected": acted("change_protection", delete=True, rebuild=True),
    "server backed up": acted("enable_backup"),
    "server out of the firewall": out_of_the_firewall,
    "rules changed": lambda site, _: site.act(site.any("firewalls", 0), "set_rules", rules=[]),
    "network protected": lambda site, _: site.act(site.any("networks", 0), "change_protection", delete=True),
    "route added": lambda site, _: site.act(
        site.any("networks", 0), "add_route", destination="10.200.0.0/24", gateway="10.0.0.99"
    ),
}


@dataclass(frozen=True)
class World:
    lab: Lab
    cloud: EmulatedCloud
    plane: ControlPlane

    def of(self, kind: str) -> dict[str, str]:
        items = self.lab.state()["resources"]
        return {item["urn"].split("::")[3]: item["id"] for item in items if item["type"] == kind}

    def site(self, name: str) -> Site:
        ids = {collection: self.of(kind) for collection, kind in KINDS.items()}
        mine = re.compile(rf"{name}(-.*)?")
        return Site(
            self.cloud,
            {
                collection: {role: number for role, number in found.items() if mine.fullmatch(role)}
                for collection, found in ids.items()
            },
        )

    def drift(self, name: str, clicks: list[tuple[str, int]]) -> None:
        """What the cloud refuses does not happen."""
        site = self.site(name)
        for click, number in clicks:
            with contextlib.suppress(requests.HTTPError):
                CLICKS[click](site, number)

    def meddle(self, path: str, *, delete: bool) -> None:
        """Somebody changes an object in Kubernetes."""
        api = self.plane.api()
        with contextlib.suppress(ApiError):  # somebody may have deleted it
            if delete:
                api.request("DELETE", path)
                return
            found = api.request("GET", path)
            found["metadata"]["labels"] = {"stray": "yes"}
            for key, value in (("rules", []), ("subjects", [])):
                if key in found:
                    found[key] = value
            api.request("PUT", path, found)

    def living(self) -> set[str]:
        return {str(item["id"]) for item in self.cloud.get("/servers", per_page=50)["servers"]}

    def backed_up(self) -> set[str]:
        found = self.cloud.get("/servers", per_page=50)["servers"]
        return {str(item["id"]) for item in found if item["backup_window"]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, shared_plane: ControlPlane) -> Iterator[World]:
    clouds = serve("instant")
    cloud = next(clouds)
    try:
        there = {"CLUSTERS": json.dumps(CLUSTERS), "CLUSTER": str(shared_plane.kubeconfig)}
        lab = lab_at(tmp_path_factory.mktemp("drift"), cloud, refresh=True, **there)
        lab.write("seats.py", Path(__file__).with_name("seats.py").read_text())
        lab.up(PROGRAM)
        yield World(lab, cloud, shared_plane)
        lab.run("destroy", "--yes")
    finally:
        clouds.close()


FREES_ADDRESSES = {"server detached", "server attached elsewhere", "all detached", "subnet deleted"}


def keeps_addresses(clicks: list[tuple[str, int]]) -> bool:
    """Whether no recreated server can get the address of a detached one, which `up` refuses to move."""
    names = {name for name, _ in clicks}
    return "server deleted" not in names or not names & FREES_ADDRESSES


CLICKED = st.lists(
    st.tuples(st.sampled_from(sorted(CLICKS)), st.integers(0, 3)), min_size=1, max_size=3
).filter(keeps_addresses)
MEDDLED = st.lists(st.tuples(st.sampled_from(OBJECTS), st.booleans()), max_size=3)


@settings(
    max_examples=-(-EXAMPLES // (2 * len(CLUSTERS))),
    # an example takes seconds
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(clicks=st.fixed_dictionaries(dict.fromkeys(CLUSTERS, CLICKED)), meddled=MEDDLED)
def test_drift_replaces_no_server_and_is_gone_after_one_run(
    world: World, clicks: dict[str, list[tuple[str, int]]], meddled: list[tuple[str, bool]]
) -> None:
    for name, list_of_clicks in clicks.items():
        world.drift(name, list_of_clicks)
    for path, delete in meddled:
        world.meddle(path, delete=delete)
    living, backed_up, servers, seats = world.living(), world.backed_up(), world.of(SERVER), world.of(SEAT)
    lost = sorted({*servers.values()} - living)
    # to begin an empty cluster, where nothing of the former one is left
    out = world.lab.up(ALLOW=json.dumps(lost))
    assert living <= world.living(), out
    assert backed_up <= world.backed_up(), out
    kept = {role: number for role, number in servers.items() if number in living}
    assert kept.items() <= world.of(SERVER).items(), out
    on_them = {role: seat for role, seat in seats.items() if role in kept}
    assert on_them.items() <= world.of(SEAT).items(), out
    again = world.lab.run("preview", "--expect-no-changes", "--diff", ALLOW=json.dumps(lost))
    assert again.status == 0, out + again.out + again.err


def urn_of(world: World, kind: str, name: str) -> str:
    (found,) = [
        item["urn"]
        for item in world.lab.state()["resources"]
        if item["type"] == kind and item["urn"].endswith(f"::{name}")
    ]
    return found


def refused(world: World, *arguments: str, **more: str) -> str:
    living = world.living()
    done = world.lab.run(*arguments, **more)
    assert done.status != 0, done.out
    assert world.living() == living
    return done.out + done.err


def test_a_plan_that_loses_servers_stops_before_the_first_deletion(world: World) -> None:
    servers = world.of(SERVER)
    # without a preview, as from the automation API
    for command in (["preview"], ["up", "--yes"]):
        said = refused(world, *command, IMAGE="debian-12")
        assert re.search(r"\b(one|three)-[abc]-control \(\d+\) would be deleted and created again", said)
        assert "allow_deletion_of=" in said
    worker = urn_of(world, SERVER, "one-a-worker-1")
    for command in (["preview"], ["up", "--yes"]):
        said = refused(world, *command, "--replace", worker)
        assert f"one-a-worker-1 ({servers['one-a-worker-1']})" in said
    allowed = {"ALLOW": json.dumps([servers["one-a-worker-1"]])}
    done = world.lab.run("up", "--yes", "--replace", worker, **allowed)
    assert done.status == 0, done.out
    after = world.of(SERVER)
    assert {role for role, number in after.items() if servers[role] != number} == {"one-a-worker-1"}
    refused(world, "preview", "--replace", worker, **allowed)


def test_a_cluster_whose_only_control_server_was_deleted_is_not_begun_empty(world: World) -> None:
    number = world.of(SERVER)["one-b-control"]
    world.cloud.send("DELETE", f"/servers/{number}")
    living = world.living()
    for command in (["preview"], ["up", "--yes"]):
        done = world.lab.run(*command)
        assert done.status != 0, done.out
        assert f'["{number}' in done.out + done.err
        assert living <= world.living()
    world.lab.up(ALLOW=json.dumps([number]))


def test_no_server_is_made_of_an_image_that_is_not_there(world: World) -> None:
    there = {"IMAGE": "99999999", "ALLOW": json.dumps([*world.of(SERVER).values()])}
    assert "has no such image" in refused(world, "up", "--yes", **there)


def test_the_key_is_rotated_and_servers_and_their_backups_stay(world: World) -> None:
    world.drift("one-a", [("server backed up", 0)])
    backed_up = world.backed_up()
    before, pair = world.of(SERVER), "pulumi-python:dynamic/ccm-from-scratch:KeyPair"
    said = world.lab.ask(["up", "--yes", "--replace", urn_of(world, pair, "one-a-key")])
    assert "SshKey one-a replaced" in said
    assert world.of(SERVER) == before
    assert world.backed_up() == backed_up != set()
