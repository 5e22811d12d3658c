"""The servers of an environment, with what they share: key, placement groups, firewall."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_hcloud as hcloud

from .endpoint import ApiEndpoint, has_endpoint
from .firewall import EVERYBODY
from .k3s import API_PORT
from .keys import KeyPair
from .labels import NO_NODE, NODE
from .network import Network
from .placement import Choice, Placement
from .pools import SHORT_FORM, Pool
from .roster import CONTROL_ROLE, NAT_ROLE
from .server import Gateway, Server, ServerArgs
from .server_plan import Made, ServerGuard, ServerPlan
from .settings import Settings
from .settings_reader import NAMESPACE
from .turns import Turns, turns
from .way_out import EVERYWHERE, NAT, nat_script, private_script

_CONTROL = re.compile(r"control(-[0-9]+)?")
GROUP_SIZE = 10
"""More servers than that don't fit into a placement group."""
NODE_PORTS = "30000-32767"
_OF_OUR_STACK = f"pulumi config set {NAMESPACE}:allowDeletionOf '{{}}'"
_OF_ANOTHER_PROGRAM = "allow_deletion_of={} among the cluster's settings"


class Servers(pulumi.ComponentResource):
    """The control servers and the workers of all pools.

    Attributes:
        controls: The control servers, the first one first.
        labels: Of everything in the cloud.
        nat: The server that leads those without public addresses; None: all have some.
        endpoint: The load balancer before the control servers; None: there is none.
        workers: The others, pool by pool.
        ssh_key: The public key in the cloud that all of them accept.
        firewall: Of all of them; a pool may have another one beside it.
        turns: Whom each worker waits for in changes that roll; the cluster says when a turn is over.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        labels: Mapping[str, str],
        *,
        network: Network,
        key: KeyPair | None = None,
        prefix: str = "",
        choices: Mapping[str, Choice] | None = None,
        existing: Collection[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares them.

        Args:
            name: Of the component.
            settings: How many of which type, where, and who may reach them.
            labels: Of everything in the cloud.
            network: To which they are attached.
            key: With which they are reached; without one the component has its own, in the state alone.
            prefix: Begins the names of the servers' resources, which several components must not share.
            choices: Where servers stand, by role; the others stand where the settings want them.
            existing: Roles of servers that are there before the run, and roll when they change.
            opts: Of the component.
        """
        super().__init__("ccm-from-scratch:index:Servers", name, None, opts)
        self._settings = settings
        self.labels = dict(labels)
        self._network = network
        self._prefix = prefix
        self._choices = choices or {}
        self._existing = existing
        self.turns = Turns(turns_of(settings, existing))
        self._made = made_of(settings, self._choices, existing)
        cluster = f"{prefix}{settings.cluster_name}"
        of_our_own = pulumi.ResourceOptions(parent=self)
        plan = ServerPlan(f"{prefix}servers", cluster, self._made, settings.allow_deletion_of, of_our_own)
        self._revisions = plan.revisions
        self._mine = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        self._key = key or KeyPair(f"{prefix}key", _key_name(settings), opts=of_our_own)
        self.ssh_key = self._ssh_key(name)
        self._groups: dict[str, hcloud.PlacementGroup] = {}
        self.firewall = self._firewall(name, settings.cluster_name, firewall_rules(settings))
        self.nat = self._nat_server() if settings.has_nat else None
        self._gateway = self._way_through(self.nat) if self.nat else self._own_gateway()
        self.controls = self._control_servers(name)
        self.endpoint = (
            ApiEndpoint(f"{prefix}api", settings, self.labels, network, of_our_own)
            if has_endpoint(settings)
            else None
        )
        self.workers = [worker for pool in settings.worker_pools for worker in self._pool(name, pool)]
        there = [*self.controls, *self.workers, *([self.nat] if self.nat else [])]
        ids = {server.role.removeprefix(prefix): server.server.id for server in there}
        switch = _OF_ANOTHER_PROGRAM if prefix else _OF_OUR_STACK
        ServerGuard(f"{prefix}servers", cluster, self._made, ids, switch=switch, opts=of_our_own)
        self.register_outputs({})

    @property
    def control(self) -> Server:
        """The first control server."""
        return self.controls[0]

    @property
    def others_remain(self) -> bool:
        """Whether control servers are there that are wanted no more, and may be in the cluster."""
        unwanted = set(self._existing) - self._settings.control_members.keys()
        return any(map(is_control, unwanted))

    def control_inputs(self) -> dict[str, pulumi.Input[Any]]:
        """How a dynamic resource reaches the cluster: by the first control server, or any other."""
        others = {
            server.role: {**server.access.way(), "server_id": server.server.id}
            for server in self.controls[1:]
        }
        return {**self.control.access.inputs(), "others": others}

    def _nat_server(self) -> Server:
        settings = self._settings
        return self._server(
            NAT,
            _nat_kind(settings),
            # no kubelet may say that it is its Node's, and have everybody's traffic sent there
            {**NAT_ROLE, NODE: NO_NODE},
            None,
            [self.firewall.id.apply(int)],
            protected=settings.protect,
        )

    def _way_through(self, nat: Server) -> Gateway:
        """What servers without public addresses need to be there before they are."""
        route = hcloud.NetworkRoute(
            nat.role,
            network_id=self._network.network.id.apply(int),
            destination=EVERYWHERE,
            gateway=nat.private_ip,
            # nobody is led to a server that does not lead on yet
            opts=pulumi.ResourceOptions.merge(self._mine, pulumi.ResourceOptions(depends_on=[nat])),
        )
        return Gateway(None if self._settings.kubeconfig_path else nat.access.way(), route)

    def _own_gateway(self) -> Gateway | None:
        own = self._settings.gateway
        return Gateway(own.way(), self._network.network) if own else None

    def _control_servers(self, name: str) -> list[Server]:
        settings = self._settings
        return [
            self._server(
                member,
                _control_kind(settings, member, location),
                CONTROL_ROLE,
                self._group(name, control_group(index)),
                [self.firewall.id.apply(int)],
                protected=settings.protect,
            )
            for index, (member, location) in enumerate(settings.control_members.items())
        ]

    def _pool(self, name: str, pool: Pool) -> list[Server]:
        # servers of stacks from before there were pools stay as they are
        labels = {"role": "worker", **({} if pool.name == SHORT_FORM else {"pool": pool.name})}
        firewalls = self._firewalls(name, pool)
        return [
            self._server(
                member,
                pool,
                labels,
                self._group(name, group_of(pool.name, number)) if pool.placement_group else None,
                firewalls,
            )
            for number, member in enumerate(pool.members, start=1)
        ]

    def _group(self, name: str, suffix: str) -> hcloud.PlacementGroup:
        """The placement group with that end of its name, which is declared when it is first needed."""
        if suffix not in self._groups:
            self._groups[suffix] = self._new_group(name, suffix)
        return self._groups[suffix]

    def _new_group(self, name: str, suffix: str) -> hcloud.PlacementGroup:
        return hcloud.PlacementGroup(
            name + suffix,
            name=self._settings.cluster_name + suffix,
            type="spread",
            labels=dict(self.labels),
            opts=self._mine,
        )

    def _ssh_key(self, name: str) -> hcloud.SshKey:
        return hcloud.SshKey(
            name,
            name=_key_name(self._settings),
            public_key=self._key.public_key,
            labels=dict(self.labels),
            opts=self._mine,
        )

    def _firewall(
        self, name: str, name_in_cloud: str, rules: list[hcloud.FirewallRuleArgs]
    ) -> hcloud.Firewall:
        return hcloud.Firewall(
            name, name=name_in_cloud, labels=dict(self.labels), rules=rules, opts=self._mine
        )

    def _firewalls(self, name: str, pool: Pool) -> list[pulumi.Input[int]]:
        """That of all servers, and where the pool names more that may come in, one of its own."""
        firewalls = [self.firewall]
        if pool.firewall:
            name_in_cloud = f"{self._settings.cluster_name}-{pool.name}"
            rules = [_inbound(rule.protocol, rule.port, rule.sources) for rule in pool.firewall]
            firewalls.append(self._firewall(f"{name}-{pool.name}", name_in_cloud, rules))
        return [firewall.id.apply(int) for firewall in firewalls]

    def _server(
        self,
        role: str,
        kind: Pool,
        labels: Mapping[str, str],
        group: hcloud.PlacementGroup | None,
        firewalls: list[pulumi.Input[int]],
        *,
        protected: bool = False,
    ) -> Server:
        settings = self._settings
        wanted = Placement(kind.server_type, kind.location)
        choice = self._choices.get(role, Choice(wanted, wanted))
        gateway = None if kind.public_ipv4 else self._gateway
        script = private_script(settings.network_cidr) if gateway else ""
        arguments = ServerArgs(
            name=f"{settings.cluster_name}-{role}",
            server_type=choice.placement.server_type,
            location=choice.placement.location,
            image=kind.image,
            labels={**self.labels, **labels, **choice.labels},
            ssh_key=self.ssh_key,
            # in a cluster that is there already nobody connects to servers
            private_key=None if settings.kubeconfig_path else self._key.private_key,
            network=self._network,
            placement_group=group,
            node_labels=kind.labels,
            node_taints=kind.taints,
            # Hetzner refuses them where there is no public interface (private_net_only_server)
            firewalls=[] if gateway else firewalls,
            revision=self._revisions.apply(lambda known: known[role]),
            types=() if "serverType" in self._made[role].inputs else _types(choice),
            turn=self.turns.options(role),
            protected=protected,
            gateway=gateway,
            script=nat_script(settings.network_cidr) if role == NAT else script,
        )
        return Server(self._prefix + role, arguments, opts=pulumi.ResourceOptions(parent=self))


def _key_name(settings: Settings) -> str:
    return f"{settings.cluster_name} dev env"


def is_control(role: str) -> bool:
    """Whether a server with that role is a control server."""
    return bool(_CONTROL.fullmatch(role))


def has_several_controls(settings: Settings, existing: Collection[str]) -> bool:
    """Whether control servers that are wanted can stand in for one: not for the only one that is there.

    Args:
        settings: Which are wanted.
        existing: Roles of servers that are there before the run.
    """
    return any(role in existing for role in [*settings.control_members][1:])


def _nat_kind(settings: Settings) -> Pool:
    return Pool(NAT, 1, settings.nat_server_type, settings.location, settings.image, public_ipv4=True)


def _control_kind(settings: Settings, role: str, location: str) -> Pool:
    public = not settings.private_nodes
    return Pool(role, 1, settings.control_server_type, location, settings.image, public_ipv4=public)


def made_of(settings: Settings, choices: Mapping[str, Choice], existing: Collection[str]) -> dict[str, Made]:
    """What each server is made of, by role. Pure.

    Args:
        settings: Which servers are wanted.
        choices: Where servers stand, by role; the others stand where the settings want them.
        existing: Roles of servers that are there before the run.
    """
    # One that others can stand in for is drained, and asks for their majority, in place of being turned off:
    # not the only control server, to which others come in the same run.
    several = has_several_controls(settings, existing)
    kinds = {NAT: (_nat_kind(settings), None)} if settings.has_nat else {}
    for role, location in settings.control_members.items():
        kinds[role] = (_control_kind(settings, role, location), None)
    for pool in settings.worker_pools:
        # only a pool of the settings has the switch for its group
        has_switch = pool.name in {given.name for given in settings.pools}
        for number, role in enumerate(pool.members, start=1):
            group = group_of(pool.name, number) if pool.placement_group else ""
            kinds[role] = (pool, group if has_switch else None)
    made = {}
    for role, (kind, group) in kinds.items():
        wanted = Placement(kind.server_type, kind.location)
        choice = choices.get(role, Choice(wanted, wanted))
        inputs = {
            "name": [f"{settings.cluster_name}-{role}"],
            "location": [choice.wanted.location, choice.placement.location],
            "publicIpv4": [str(bool(kind.public_ipv4))],
        }
        if role != NAT:
            # another NAT server would have another address, and all that is reached through it would change
            inputs["image"] = [kind.image]
        if role != NAT and (several or not is_control(role)):
            inputs["serverType"] = _types(choice)
        if group is not None:
            inputs["placementGroup"] = [group]
        rolls = several and is_control(role) and role in existing
        made[role] = Made(
            f"{settings.cluster_name}-{role}",
            inputs,
            is_control=is_control(role),
            rolls=rolls,
            image=kind.image,
            server_type=choice.placement.server_type,
        )
    return made


def _types(choice: Choice) -> list[str]:
    return [choice.wanted.server_type, choice.placement.server_type]


def turns_of(settings: Settings, existing: Collection[str]) -> dict[str, list[str]]:
    """Whom each server that is there before the run waits for, by role. Pure.

    Args:
        settings: Which servers, and how many of a pool may be away.
        existing: Roles of those that are there.
    """
    if settings.kubeconfig_path:
        # in a cluster that is there already nobody sees whether a server is back
        return {}
    controls = [*settings.control_members]
    # as k3s is installed on them: one that is new may come in between
    of_controls = {member: [before] for before, member in itertools.pairwise(controls) if member in existing}
    of_workers = {
        member: others
        for pool in settings.worker_pools
        for member, others in turns(pool.members, existing, pool.max_unavailable or 1, controls).items()
    }
    return of_controls | of_workers


def control_group(index: int) -> str:
    """How the name of a control server's placement group ends, by its place among them.

    The first shares that of the workers of ``workerCount``, in which there is no room for more. So one host
    may carry the first and one of the others: two of five can be lost, three are kept apart by locations.
    """
    return group_of(SHORT_FORM, 0) if index == 0 else "-control-1"


def group_of(pool: str, number: int) -> str:
    """How the name of a server's placement group ends: always the same one, whatever other pools do.

    The pool that ``workerCount`` means shares its first one with the control server, its number 0. A number
    ends the names of others, so that those of the pools ``a`` and ``a-1`` differ.
    """
    if pool == SHORT_FORM:
        index = number // GROUP_SIZE
        return f"-{index + 1}" if index else ""
    return f"-{pool}-{(number - 1) // GROUP_SIZE + 1}"


def firewall_rules(settings: Settings) -> list[hcloud.FirewallRuleArgs]:
    """What the Internet may reach; everything else is dropped, and private networks are never filtered.

    - SSH and the Kubernetes API, for whom the settings name: Pulumi and kubectl come this way. The API
      insists on a certificate, but what it lets everybody read (its version, for one) is nobody's business.
    - ping, and the messages without which large packets get lost, for everybody
    - node ports for nobody, unless the settings say so: load balancers use the private network

    So the kubelet (10250), the CCM (10258) and its metrics (8233) are never reached from outside.
    """
    rules = [("tcp", "22", settings.ssh_allowed_cidrs), ("tcp", str(API_PORT), settings.ssh_allowed_cidrs)]
    if settings.node_port_allowed_cidrs:
        rules += [(protocol, NODE_PORTS, settings.node_port_allowed_cidrs) for protocol in ("tcp", "udp")]
    rules.append(("icmp", None, EVERYBODY))
    return [_inbound(*rule) for rule in rules]


def _inbound(protocol: str, port: str | None, sources: Sequence[str]) -> hcloud.FirewallRuleArgs:
    return hcloud.FirewallRuleArgs(direction="in", protocol=protocol, port=port, source_ips=list(sources))
