"""The servers of an environment, and the SSH key, placement groups and firewall that they share."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

import pulumi
import pulumi_hcloud as hcloud

from ..config.firewall_rules import EVERYBODY
from ..config.k3s import API_PORT
from ..config.server_spec import CONTROL_ROLES, Kind, ServerSpec, of_kind, resized_in_place
from ..config.setting_types import NAMESPACE
from ..config.settings import Settings
from .api_load_balancer import ApiEndpoint, has_endpoint
from .keys import KeyPair
from .nat import EVERYWHERE, nat_script, private_script
from .network import Network
from .rollout import Rollout, rollout_order
from .server import Gateway, Server, ServerArgs
from .server_plan import InstallationGuard, ServerGuard, ServerPlan, guard_inputs, made_of

NODE_PORTS = "30000-32767"
_OF_OUR_STACK = f"pulumi config set {NAMESPACE}:allowDeletionOf '{{}}'"
_OF_ANOTHER_PROGRAM = "allow_deletion_of={} among the cluster's settings"


class Servers(pulumi.ComponentResource):
    """The control servers and the workers of all pools."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        labels: Mapping[str, str],
        *,
        network: Network,
        key: KeyPair | None = None,
        prefix: str = "",
        specs: Sequence[ServerSpec] | None = None,
        existing: Collection[str] = (),
        held: Mapping[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares them. ``prefix`` begins the names of resources, which several components must not share.

        Without a ``key`` the component has its own, in the state alone. ``specs`` are the servers with their
        placement (None: those of the settings); ``existing`` ones roll when they change,
        and were made with the revisions ``held``.
        """
        super().__init__("ccm-from-scratch:index:Servers", name, None, opts)
        self._settings = settings
        self.labels = dict(labels)
        self._network = network
        self._name = name
        self._prefix = prefix
        self._specs = settings.servers if specs is None else specs
        self._existing = existing
        # the cluster adds the resources that show that a server is done
        self.rollout = Rollout(rollout_order(settings, existing))
        cluster = f"{prefix}{settings.cluster_name}"
        of_our_own = pulumi.ResourceOptions(parent=self)
        self._asked = {
            "cluster": cluster,
            "servers": {role: asdict(made) for role, made in made_of(self._specs, existing, held).items()},
        }
        self._switch = _OF_ANOTHER_PROGRAM if prefix else _OF_OUR_STACK
        self._revisions = ServerPlan(
            f"{prefix}servers",
            of_our_own,
            **self._asked,
            allowed=list(settings.allow_deletion_of),
            restores=bool(settings.restore_from) or None,
        ).revisions
        self._mine = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        self._key = key or KeyPair(f"{prefix}key", of_our_own, comment=_key_name(settings))
        self.ssh_key = self._ssh_key(name)  # all servers accept it
        self._groups: dict[str, hcloud.PlacementGroup] = {}
        # of all servers; a pool may have another one beside it
        self.firewall = self._firewall("", firewall_rules(settings))
        self._of_pools = {
            pool.name: self._firewall(f"-{pool.name}", [_inbound(*astuple(rule)) for rule in pool.firewall])
            for pool in settings.worker_pools
            if pool.firewall
        }
        own = settings.gateway
        self._gateway = Gateway(asdict(own), network.network) if own else None
        # the gateway of servers without public addresses; None: all have some
        self.nat = next(iter(self._servers(Kind.NAT)), None)
        if self.nat:
            self._gateway = self._nat_gateway(self.nat)
        self.controls = self._servers(Kind.CONTROL)  # the first one first
        # the load balancer before the control servers; None: there is none
        self.endpoint = (
            ApiEndpoint(f"{prefix}api", settings, self.labels, network, of_our_own)
            if has_endpoint(settings)
            else None
        )
        self.workers = self._servers(Kind.WORKER)  # pool by pool
        there = [*self.controls, *self.workers, *([self.nat] if self.nat else [])]
        ids = {server.role.removeprefix(prefix): server.server.id for server in there}
        guarded = {**self._asked, **guard_inputs(ids)}
        attached = {"network": network.id, "subnet": network.subnet.id}
        ServerGuard(f"{prefix}servers", of_our_own, **guarded, **attached, switch=self._switch)
        self.register_outputs({})

    @property
    def control(self) -> Server:
        """The first control server."""
        return self.controls[0]

    @property
    def others_remain(self) -> bool:
        """Whether control servers exist that are no longer wanted, and that may be in the cluster."""
        wanted = {spec.role for spec in self._specs}
        return bool({*self._existing} & {*CONTROL_ROLES} - wanted)

    def control_inputs(self) -> dict[str, pulumi.Input[Any]]:
        """How a dynamic resource reaches the cluster: by the first control server, or any other."""
        others = {
            server.role: {**server.access.way(), "server_id": server.server.id}
            for server in self.controls[1:]
        }
        return {**self.control.access.inputs(), "others": others}

    def member_inputs(self, server: Server) -> dict[str, pulumi.Input[Any]]:
        """The same, and the name and ID of a server that is one of its Nodes."""
        return {**self.control_inputs(), "node": server.name, "member_id": server.server.id}

    def guard_installations(
        self,
        installed: Mapping[str, tuple[pulumi.Input[str], pulumi.Input[str]]],
        opts: pulumi.ResourceOptions | None = None,
        started_empty: pulumi.Input[str | None] = None,
    ) -> pulumi.Resource:
        """Keeps k3s on the control servers as long as no others have the cluster. Resources that would be
        deleted with the cluster depend on the returned guard.
        """
        ids = {role.removeprefix(self._prefix): server_id for role, (server_id, _) in installed.items()}
        installations = {role.removeprefix(self._prefix): text for role, (_, text) in installed.items()}
        guarded = {**self._asked, **guard_inputs(ids, installations)}
        name, more = f"{self._prefix}installations", {"switch": self._switch, "started_empty": started_empty}
        return InstallationGuard(name, opts, **guarded, **more)

    def _nat_gateway(self, nat: Server) -> Gateway:
        """What must exist before servers without public addresses."""
        route = hcloud.NetworkRoute(
            nat.role,
            network_id=self._network.network.id.apply(int),
            destination=EVERYWHERE,
            gateway=nat.private_ip,
            # no packets are routed to the NAT server before it forwards them
            opts=pulumi.ResourceOptions.merge(self._mine, pulumi.ResourceOptions(depends_on=[nat])),
        )
        return Gateway(None if self._settings.kubeconfig_path else nat.access.way(), route)

    def _servers(self, kind: Kind) -> list[Server]:
        return [self._server(spec) for spec in of_kind(self._specs, kind)]

    def _group(self, spec: ServerSpec) -> hcloud.PlacementGroup | None:
        """The placement group of a server, which is declared when it is first needed."""
        if spec.group is None:
            return None
        if spec.group not in self._groups:
            self._groups[spec.group] = hcloud.PlacementGroup(
                self._name + spec.group,
                name=self._settings.cluster_name + spec.group,
                type="spread",
                labels=dict(self.labels),
                opts=self._mine,
            )
        return self._groups[spec.group]

    def _ssh_key(self, name: str) -> hcloud.SshKey:
        return hcloud.SshKey(
            name,
            name=_key_name(self._settings),
            public_key=self._key.public_key,
            labels=dict(self.labels),
            opts=self._mine,
        )

    def _firewall(self, suffix: str, rules: list[hcloud.FirewallRuleArgs]) -> hcloud.Firewall:
        name = self._settings.cluster_name + suffix
        return hcloud.Firewall(
            self._name + suffix, name=name, labels=dict(self.labels), rules=rules, opts=self._mine
        )

    def _server(self, spec: ServerSpec) -> Server:
        settings = self._settings
        gateway = None if spec.is_public else self._gateway
        script = private_script(settings.network_cidr) if gateway else ""
        firewalls = [self.firewall, *([self._of_pools[spec.pool]] if spec.pool in self._of_pools else [])]
        arguments = ServerArgs(
            spec,
            labels={**self.labels, **spec.labels},
            ssh_key=self.ssh_key,
            # the program does not connect to servers of an existing cluster
            private_key=None if settings.kubeconfig_path else self._key.private_key,
            network=self._network,
            placement_group=self._group(spec),
            # Hetzner refuses them where there is no public interface (private_net_only_server)
            firewalls=[] if gateway else [firewall.id.apply(int) for firewall in firewalls],
            revision=self._revisions.apply(lambda known: known[spec.role]),
            types=spec.types if spec.role in resized_in_place(self._specs, self._existing) else (),
            rollout=self.rollout.options(spec.role),
            protected=settings.protect and spec.kind is not Kind.WORKER,
            gateway=gateway,
            script=nat_script(settings.network_cidr) if spec.kind is Kind.NAT else script,
        )
        return Server(self._prefix + spec.role, arguments, opts=pulumi.ResourceOptions(parent=self))


def _key_name(settings: Settings) -> str:
    return f"{settings.cluster_name} dev env"


def firewall_rules(settings: Settings) -> list[hcloud.FirewallRuleArgs]:
    """What the Internet may reach; everything else is dropped, and private networks are never filtered.

    - SSH and the Kubernetes API from the addresses in the settings: Pulumi and kubectl use them. The API
      requires a certificate, but some of its answers, such as the version, are readable without one.
    - ICMP from everywhere: ping, and the errors that path MTU discovery needs
    - node ports only from addresses in the settings: load balancers use the private network

    So the kubelet (10250), the CCM (10258) and its metrics (8233) are never reached from outside.
    """
    rules = [("tcp", "22", settings.ssh_allowed_cidrs), ("tcp", str(API_PORT), settings.ssh_allowed_cidrs)]
    if settings.node_port_allowed_cidrs:
        rules += [(protocol, NODE_PORTS, settings.node_port_allowed_cidrs) for protocol in ("tcp", "udp")]
    return [_inbound(*rule) for rule in (*rules, ("icmp", None, EVERYBODY))]


def _inbound(protocol: str, port: str | None, sources: Sequence[str]) -> hcloud.FirewallRuleArgs:
    return hcloud.FirewallRuleArgs(direction="in", protocol=protocol, port=port, source_ips=list(sources))
