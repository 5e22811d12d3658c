"""A server: made, attached to the private network, waited for until cloud-init is done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_hcloud as hcloud
from pulumi.dynamic import CreateResult, Resource

from .dynamic import Provider
from .network import Network
from .remote import Host, connect

CLOUD_INIT_SECONDS = 300.0
WAIT_FOR_CLOUD_INIT = """
command -v cloud-init >/dev/null || exit 0
code=0
cloud-init status --wait >/dev/null || code=$?
# 2 is "done, with errors that it recovered from"
[ "$code" -eq 0 ] || [ "$code" -eq 2 ] || { cloud-init status --long; exit "$code"; }
"""


@dataclass(frozen=True)
class Access:
    """What a dynamic resource needs to reach a server, as inputs of it."""

    server_id: pulumi.Input[str]
    address: pulumi.Input[str]
    private_key: pulumi.Input[str]
    host_key: pulumi.Input[str]

    def inputs(self) -> dict[str, pulumi.Input[str]]:
        """The four as properties."""
        return {
            "server_id": self.server_id,
            "address": self.address,
            "private_key": self.private_key,
            "host_key": self.host_key,
        }


def host_of(props: Mapping[str, Any]) -> Host:
    """The host that the properties of ``Access`` name."""
    return Host(props["address"], props["private_key"], props.get("host_key"))


def others_of(props: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    """How the control servers beside the first are reached, by role; a state of earlier versions has none."""
    return props.get("others") or {}


def hosts_of(props: Mapping[str, Any]) -> list[Host]:
    """All control servers that the properties of a resource in the cluster name, the first one first."""
    others = [Host(at["address"], props["private_key"], at["host_key"]) for at in others_of(props).values()]
    return [host_of(props), *others]


def control_ids(props: Mapping[str, Any]) -> list[str]:
    """Ids of the servers that ``hosts_of`` names, in its order."""
    return [props["server_id"], *(at["server_id"] for at in others_of(props).values())]


class BootProvider(Provider):
    """Waits until a new server lets us in and has set itself up."""

    replaced_by = ("server_id",)
    unheeded = ("private_key",)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Connects, waits for cloud-init, and notes the server's host key."""
        host_key = asyncio.run(wait_for_boot(host_of(props)))
        return CreateResult(props["server_id"], {**props, "host_key": host_key})


async def wait_for_boot(host: Host) -> str:
    """Returns the server's host key once it is set up."""
    async with connect(host) as shell:
        await shell.run(WAIT_FOR_CLOUD_INIT, what="cloud-init", timeout=CLOUD_INIT_SECONDS)
        return shell.host_key


class Boot(Resource, module="ccm-from-scratch", name="Boot"):
    """A server that has booted; later connections insist on the host key seen now."""

    host_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        server_id: pulumi.Input[str],
        address: pulumi.Input[str],
        private_key: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {"server_id": server_id, "address": address, "private_key": private_key, "host_key": None}
        super().__init__(BootProvider(), name, props, opts)


@dataclass(frozen=True)
class ServerArgs:
    """What a server is made of.

    Attributes:
        name: Its name in the cloud, its host name and its node's name.
        ssh_key: The public key in the cloud that root accepts.
        private_key: The other half, secret; None when nobody connects: the server is not waited for.
        placement_group: Keeps servers on different hosts; None: wherever there is room.
        firewalls: Ids.
        node_labels: Of its Node.
        node_taints: Of its Node, as kubectl writes them.
        made_anew_by: Properties that need another server when they change, where the cloud could change this
            one: it turns it off for another type, and refuses to move it to another group while it runs.
        turn: What it depends on in changes that roll server by server.
        protected: Whether the cloud refuses to delete or rebuild it.
    """

    name: str
    server_type: str
    location: str
    image: str
    labels: Mapping[str, str]
    ssh_key: hcloud.SshKey
    private_key: pulumi.Input[str] | None
    network: Network
    placement_group: hcloud.PlacementGroup | None
    firewalls: list[pulumi.Input[int]]
    node_labels: Mapping[str, str]
    node_taints: Sequence[str]
    made_anew_by: Sequence[str] = ()
    turn: pulumi.ResourceOptions = field(default_factory=pulumi.ResourceOptions)
    protected: bool = False


class Server(pulumi.ComponentResource):
    """A server in the private network.

    Attributes:
        name: Host name and name of the node.
        role: ``control``, ``control-2``, or a pool and a number, such as ``worker-1``; names its resources.
        node_labels: Of its Node.
        node_taints: Of its Node, as kubectl writes them.
        server: The server in the cloud; what runs on it goes when it goes.
        public_ip: Its IPv4 address.
        private_ip: Its address in the private network, known once it is attached.
    """

    def __init__(self, name: str, args: ServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ccm-from-scratch:index:Server", name, None, opts)
        self.name = args.name
        self.role = name
        self.node_labels = dict(args.node_labels)
        self.node_taints = list(args.node_taints)
        self.server = self._server(name, args)
        self.public_ip: pulumi.Output[str] = self.server.ipv4_address
        gone_with = pulumi.ResourceOptions(parent=self, deleted_with=self.server, delete_before_replace=True)
        attachment = hcloud.ServerNetwork(
            name,
            server_id=self.server.id.apply(int),
            subnet_id=args.network.subnet.id,
            opts=gone_with,
        )
        self.private_ip: pulumi.Output[str] = attachment.ip
        self._access = self._boot(args.private_key, gone_with) if args.private_key is not None else None
        self.register_outputs({"public_ip": self.public_ip, "private_ip": self.private_ip})

    @property
    def access(self) -> Access:
        """How dynamic resources reach it, known once it has booted; only for one with a private key."""
        assert self._access is not None, "nobody connects to this server"
        return self._access

    def _boot(self, private_key: pulumi.Input[str], options: pulumi.ResourceOptions) -> Access:
        boot = Boot(self.role, self.server.id, self.public_ip, private_key, opts=options)
        return Access(self.server.id, self.public_ip, private_key, boot.host_key)

    def _server(self, name: str, args: ServerArgs) -> hcloud.Server:
        options = pulumi.ResourceOptions(
            parent=self,
            # names are unique in a project, so the old one has to go first
            delete_before_replace=True,
            # A host name, which the node is called after, doesn't follow the server's name. What somebody
            # did to its type or placement group by hand is a change, too, as `up` sees it: of no server that
            # can't be spared.
            replace_on_changes=["name", *args.made_anew_by],
            # attached later, but deleted earlier: a network is busy while its servers go
            depends_on=[args.network.network],
        )
        return hcloud.Server(
            name,
            name=args.name,
            server_type=args.server_type,
            image=args.image,
            location=args.location,
            ssh_keys=[args.ssh_key.id],
            labels=dict(args.labels),
            placement_group_id=args.placement_group.id.apply(int) if args.placement_group else None,
            firewall_ids=args.firewalls or None,
            # Hetzner wants the two alike. None, as ever, and not False: nothing is to change in the stacks
            # that are there.
            delete_protection=args.protected or None,
            rebuild_protection=args.protected or None,
            opts=pulumi.ResourceOptions.merge(options, args.turn),
        )
