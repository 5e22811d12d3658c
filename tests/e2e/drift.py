"""Drift on machines: up to three things that somebody changes at once are repaired by one ``up``.

In the cloud, in Kubernetes and on the machines themselves, with one control server, and with three behind a
NAT server.
"""

import os
import random
import time
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ccm_pulumi.servers.nat import EVERYWHERE
from tests.e2e.cluster_state import PREFIX, identity
from tests.e2e.conftest import Clone, eventually
from tests.e2e.looks import internal, load_balancer_ip, nothing_to_do, ready, routes

EXAMPLES = 3  # in each environment: an example takes about a minute
SECONDS = 600 + 180 * EXAMPLES
UNITS = "/etc/systemd/system"
REGISTRIES = "/etc/rancher/k3s/registries.yaml"
SYSTEM = "--namespace=kube-system"
NAME = "ccm-from-scratch"
UNKNOWN = ("for drift", "can't detect changes in the cluster", "not read: ")
"""A run says one of these where it could not ask a server or the cluster; the next one repairs the rest."""


@dataclass
class Place:
    """An environment before drift."""

    clone: Clone
    servers: dict[str, int]  # IDs by role
    loses: bool  # whether a member of etcd may still be lost: the others keep the data

    @property
    def network(self) -> int:
        (network,) = self.clone.api("/networks")["networks"]
        return network["id"]

    def act(self, role: str, action: str, **body: object) -> None:
        """Call an action of a server, and wait until it ends."""
        path = f"/servers/{self.servers[role]}/actions/{action}"
        started = self.clone.api(path, body, "POST")["action"]["id"]
        over = lambda: self.clone.api(f"/actions/{started}")["action"]["status"] != "running"  # noqa: E731
        eventually(over, 60, f"{action} of {role} ends")

    def may_lose(self, role: str) -> bool:
        """Whether a server's data may go; of control servers, that of one among three."""
        if not role.startswith("control"):
            return True
        loses, self.loses = self.loses, False
        return loses

    def on(self, role: str, commands: str) -> None:
        unit = "k3s" if role.startswith("control") else "k3s-agent"
        known = f"unit={unit} nat=nat-of-private-network"
        self.clone.dev("ssh", role, f"{known}; {commands}", check=False)

    def kubectl(self, *words: str) -> None:
        self.clone.dev("kubectl", "--request-timeout=20s", *words, check=False)


Drift = Callable[[Place, str], object]


def on(commands: str) -> Drift:
    return lambda place, role: place.on(role, commands)


def on_control(commands: str) -> Drift:
    return lambda place, role: place.on(role if role.startswith("control") else "control", commands)


def on_worker(commands: str) -> Drift:
    return lambda place, role: place.on("worker-1" if role.startswith("control") else role, commands)


def kubectl(*words: str) -> Drift:
    return lambda place, _: place.kubectl(*words)


def acted(action: str) -> Drift:
    return lambda place, role: place.act(role, action)


def changed(**body: object) -> Drift:
    return lambda place, role: place.clone.api(f"/servers/{place.servers[role]}", body, "PUT")


def rebuilt(place: Place, role: str) -> None:
    if place.may_lose(role):
        place.act(role, "rebuild", image="debian-13")
        server = f"/servers/{place.servers[role]}"
        running = lambda: place.clone.api(server)["server"]["status"] == "running"  # noqa: E731
        eventually(running, 60, "the server runs again")


def node_deleted(place: Place, role: str) -> None:
    # where several have the cluster, a control server leaves etcd with its Node
    if len([one for one in place.servers if one.startswith("control")]) == 1 or place.may_lose(role):
        place.kubectl("delete", "node", PREFIX + role, "--wait=false")


def out_of_the_firewall(place: Place, role: str) -> None:
    targets = [{"type": "server", "server": {"id": place.servers[role]}}]
    for firewall in place.clone.api("/firewalls")["firewalls"]:
        path = f"/firewalls/{firewall['id']}/actions/remove_from_resources"
        with suppress(urllib.error.HTTPError):
            place.clone.api(path, {"remove_from": targets}, "POST")


def nat_route_deleted(place: Place, _: str) -> None:
    body = {"destination": EVERYWHERE, "gateway": routes(place.clone)[EVERYWHERE]}
    place.clone.api(f"/networks/{place.network}/actions/delete_route", body, "POST")


def key_deleted(place: Place, _: str) -> None:
    for key in place.clone.api("/ssh_keys")["ssh_keys"]:
        place.clone.api(f"/ssh_keys/{key['id']}", method="DELETE")


def without_rules(place: Place, _: str) -> None:
    for kind in ("clusterrole", "role"):
        words = ("patch", kind, NAME, "--type=merge", '--patch={"rules":[]}')
        place.kubectl(SYSTEM, *words)


IN_KUBERNETES: dict[str, Drift] = {
    "Node deleted": node_deleted,
    "ServiceAccount deleted": kubectl(SYSTEM, "delete", "serviceaccount", "cloud-controller-manager"),
    "ClusterRole deleted": kubectl("delete", "clusterrole", NAME),
    "bindings deleted": kubectl(
        SYSTEM, "delete", f"clusterrolebinding/{NAME}", f"rolebinding/{NAME}:authentication-reader"
    ),
    "roles without rules": without_rules,
    "Secret deleted": kubectl(SYSTEM, "delete", "secret", "hcloud"),
    "Secret changed": kubectl(
        SYSTEM, "patch", "secret", "hcloud", "--type=merge", '--patch={"stringData":{"token":"another"}}'
    ),
    "Deployment deleted": kubectl(SYSTEM, "delete", "deployment", NAME),
    "Deployment changed": kubectl(
        SYSTEM, "set", "image", f"deployment/{NAME}", "*=registry.invalid/another:1"
    ),
    "CCM scaled to zero": kubectl(SYSTEM, "scale", "deployment", NAME, "--replicas=0"),
}
ON_MACHINES: dict[str, Drift] = {
    "unit stopped": on("systemctl stop $unit"),
    "unit disabled": on("systemctl disable --now $unit"),
    "unit masked": on(
        f"systemctl stop $unit; ln -sf /dev/null {UNITS}/$unit.service; systemctl daemon-reload"
    ),
    "unit file deleted": on(f"systemctl stop $unit; rm {UNITS}/$unit.service; systemctl daemon-reload"),
    "flag added": on(
        "sed -i \"s/'--kubelet-arg=cloud-provider=external'/& '--node-label=stray=yes'/\" "
        f"{UNITS}/$unit.service; systemctl daemon-reload; systemctl restart --no-block $unit"
    ),
    "environment deleted": on(f"rm {UNITS}/$unit.service.env"),
    "token changed": on(f"sed -i 's/^K3S_TOKEN=.*/K3S_TOKEN=another/' {UNITS}/$unit.service.env"),
    "program deleted": on("systemctl stop $unit; rm /usr/local/bin/k3s"),
    "CNI file deleted": on("rm /etc/cni/net.d/10-native.conflist"),
    "CNI file changed": on("sed -i 's/[0-9]*[.]0[/]24/77.0\\/24/' /etc/cni/net.d/10-native.conflist"),
    "rules of Pods gone": on("nft delete table ip pod-network; rm /etc/cni/pod-network.nft"),
    "Pod network disabled": on("systemctl disable --now pod-network"),
    "Pod network's unit changed": on(f"sed -i 's/^ExecStart=.*/ExecStart=true/' {UNITS}/pod-network.service"),
    "registries changed": on(
        "install -d /etc/rancher/k3s; printf 'mirrors:\\n  registry.invalid:\\n    endpoint: "
        f'["http://192.0.2.1"]\\n\' > {REGISTRIES}; systemctl restart --no-block $unit'
    ),
    "node password deleted": on_worker("rm /etc/rancher/node/password; systemctl restart --no-block $unit"),
    "no encryption": on_control("rm /etc/rancher/k3s/config.yaml.d/*; systemctl restart --no-block $unit"),
    "CCM's image removed": on_control(
        "k3s ctr images ls -q | grep ccm-from-scratch | xargs k3s ctr images rm"
    ),
}
IN_THE_CLOUD: dict[str, Drift] = {
    "server renamed": changed(name="another"),
    "other labels": changed(labels={"stray": "yes"}),
    "server off": acted("poweroff"),
    "server rebuilt": rebuilt,
    "server detached": lambda place, role: place.act(role, "detach_from_network", network=place.network),
    "out of the firewall": out_of_the_firewall,
    "key deleted": key_deleted,
}
OF_NAT: dict[str, Drift] = {
    "NAT gone": lambda place, _: place.on("nat", "nft delete table ip $nat; rm /etc/$nat.nft"),
    "NAT route deleted": nat_route_deleted,
}
# In this order: drift on a machine needs its network, and drift in Kubernetes needs a machine.
DRIFTS = {**IN_KUBERNETES, **ON_MACHINES, **OF_NAT, **IN_THE_CLOUD}
ORDER = [*DRIFTS]


def k3s_servers(clone: Clone) -> list[str]:
    urns = clone.pulumi("stack", "--stack", "local", "--show-urns").stdout.split()
    return [urn for urn in urns if ":K3sServer::" in urn]


def routes_follow(clone: Clone) -> bool:
    wanted = {node["spec"]["podCIDR"]: internal(node) for node in clone.nodes().values()}
    return {cidr: gateway for cidr, gateway in routes(clone).items() if cidr != EVERYWHERE} == wanted


def serves(clone: Clone) -> None:
    """Fails unless the CCM makes a load balancer, and takes it away."""
    service = ("service", "loadbalancer", "asked")
    clone.dev("kubectl", "create", *service, "--tcp=80:80")
    eventually(lambda: load_balancer_ip(clone, "service/asked"), 60, "the CCM makes a load balancer")
    clone.dev("kubectl", "delete", "service", "asked", "--timeout=60s")


def random_changes_are_repaired(environment: Clone) -> None:
    """Repair random changes; the variable DRIFT_SEED repeats a run."""
    seed = int(os.environ.get("DRIFT_SEED", time.time()))
    print(f"DRIFT_SEED={seed}")
    # not by Hypothesis, which would repeat a failed example in an environment that is broken by then
    chosen = random.Random(seed)
    for _ in range(EXAMPLES):
        servers = sorted(environment.servers())
        names = chosen.sample(ORDER, chosen.randint(1, 3))
        are_repaired(environment, {name: chosen.choice(servers) for name in names})


def are_repaired(environment: Clone, changes: dict[str, str]) -> None:
    """Make changes, each to the server of a role; then ``up`` repairs them."""
    servers, uid = environment.server_ids(), identity(environment)
    changes = {name: role for name, role in changes.items() if name not in OF_NAT or "nat" in servers}
    print(f"at {time.strftime('%T')}:")
    place = Place(environment, servers, loses=sum(role.startswith("control") for role in servers) > 1)
    for name in sorted(changes, key=ORDER.index):
        role = changes[name]
        if role == "nat" and name in {**IN_KUBERNETES, **ON_MACHINES}:
            role = "worker-1"  # nat has no Node
        print(f"{name}: {role}")  # of all examples: one may break what a later one notices
        with suppress(urllib.error.HTTPError):  # what the cloud refuses does not happen
            DRIFTS[name](place, role)
    done = environment.dev("up", check=False)
    print(done.stdout)
    if done.returncode and "repair only k3s" in done.stdout:
        for urn in k3s_servers(environment):
            environment.pulumi("up", "--stack", "local", "--yes", "--skip-preview", "--target", urn)
    if done.returncode or any(what in done.stdout for what in UNKNOWN):
        environment.dev("up")
    assert environment.server_ids() == servers
    assert identity(environment) == uid
    nodes = environment.nodes()
    assert nodes.keys() == {PREFIX + role for role in servers if role != "nat"}
    assert all(ready(node) for node in nodes.values())
    eventually(lambda: routes_follow(environment), 60, "the CCM has seen every Node")
    serves(environment)
    nothing_to_do(environment)
