"""A server: created, attached to the private network, and waited for until cloud-init is done."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pulumi
import pulumi_hcloud as hcloud
from pulumi.dynamic import CreateResult, UpdateResult

from ..config.gateway import read_key
from ..config.server_spec import ServerSpec
from ..lib.cloud_api import Cloud, everything, fetcher
from ..lib.dynamic import CloudProvider, Provider, ProviderResource
from ..lib.errors import ConfigurationError, HostKeyError
from ..lib.ssh import CONNECT_SECONDS, Host, connect, run_once
from .network import Network
from .probe import PROBES, Report, ServerProvider, differences, drift_of
from .root_key import rotate
from .server_plan import IGNORED
from .server_state import ServerState, state_inputs

CLOUD_INIT_SECONDS = 300.0
PRIVATE_BOOT_SECONDS = 600.0
"""The timeout of SSH logins to servers without a public address. On these servers, cloud-init first waits
four to six minutes for a public interface. During this wait, SSH refuses logins:
https://github.com/hetznercloud/terraform-provider-hcloud/issues/1074,
https://github.com/vitobotta/hetzner-k3s/pull/458"""
WAIT_FOR_CLOUD_INIT = """
command -v cloud-init >/dev/null || exit 0
code=0
cloud-init status --wait >/dev/null || code=$?
# 2 is "done, with errors that it recovered from"
[ "$code" -eq 0 ] || [ "$code" -eq 2 ] || { cloud-init status --long; exit "$code"; }
"""


@dataclass(frozen=True)
class Access:
    """The inputs with which a dynamic resource reaches a server."""

    server_id: pulumi.Input[str]
    address: pulumi.Input[str]  # the public one; of a server without one, the private one
    private_key: pulumi.Input[str]
    host_key: pulumi.Input[str] | None  # the expected one; None: not known yet
    jump: Mapping[str, pulumi.Input[str]] | None = None  # the jump host of a server without a public address

    def inputs(self) -> dict[str, pulumi.Input[Any]]:
        """All of them as properties."""
        return {"server_id": self.server_id, "private_key": self.private_key, **self.way()}

    def way(self) -> dict[str, pulumi.Input[Any]]:
        """Those that differ from server to server."""
        jump = {"jump": dict(self.jump)} if self.jump else {}
        return {"address": self.address, "host_key": self.host_key, **jump}


def host_of(props: Mapping[str, Any]) -> Host:
    """The host of the properties of ``Access``."""
    return host_at(props, props["private_key"])


def host_at(way: Mapping[str, Any], private_key: str) -> Host:
    """The host of ``Access.way``, or of the user's own gateway, whose key must be readable."""
    jump, key_file = way.get("jump"), way.get("key_file", "")
    return Host(
        way["address"],
        read_key(key_file) if key_file else private_key,
        way.get("host_key"),
        way.get("user", "root"),
        jump=host_at(jump, private_key) if jump else None,
        key_file=key_file,
    )


def others_of(props: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    """How to reach the control servers except the first, by role; the state of earlier versions has none."""
    return props.get("others") or {}


def hosts_of(props: Mapping[str, Any]) -> list[Host]:
    """All control servers in the properties of a resource, the first one first."""
    return [host_of(props), *(host_at(at, props["private_key"]) for at in others_of(props).values())]


def control_ids(props: Mapping[str, Any]) -> list[str]:
    """IDs of the servers of ``hosts_of``, in its order."""
    return [props["server_id"], *(at["server_id"] for at in others_of(props).values())]


class OneServerProvider(ServerProvider):
    """A provider that compares a server with what its resource wrote on it."""

    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """Reads the server's report and compares."""
        return drift_of(PROBES.of([host_of(props)])[0], lambda report: self.compare(props, report))

    def compare(self, props: Mapping[str, Any], report: Report) -> list[str]:
        """The differences except the host key, for a person."""
        del props, report
        return []


class ScriptProvider(OneServerProvider):
    """Runs a script on a server, and again if the script changes. Deleting it does nothing."""

    replaced_by = ("server_id",)
    what: ClassVar[str]
    """Names the script in errors."""
    seconds: ClassVar[float] = 180.0
    """Timeout of the script in seconds, including the installation of packages."""

    def script(self, props: Mapping[str, Any]) -> str:
        """The script; it is idempotent."""
        return str(props["script"])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Runs the script."""
        script = self.script(props)
        asyncio.run(run_once([host_of(props)], script, what=self.what, timeout=self.seconds))
        return CreateResult(props["server_id"], dict(props))

    def compare(self, props: Mapping[str, Any], report: Report) -> list[str]:
        """Compares files, units and tables with those of the script."""
        return differences(self.script(props), report)


class BootProvider(OneServerProvider, CloudProvider):
    """Waits until a new or rebuilt server accepts logins and cloud-init is done."""

    replaced_by = ("server_id",)
    ignored_inputs = ("private_key",)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Connects, waits for cloud-init, and records the server's host key."""
        host_key = asyncio.run(wait_for_boot(host_of(props)))
        return CreateResult(props["server_id"], {**props, "host_key": host_key})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Waits again, for a server with the known host key. After a rebuild it accepts any host key. A
        HostKeyError: it has another one, and the cloud lists no rebuild since; or its gateway has.
        """
        noted = {name: _olds[name] for name in ("host_key", "rebuilt") if _olds.get(name)}
        try:
            host_key = asyncio.run(wait_for_boot(host_of({**_news, **noted})))
        except HostKeyError as error:
            if error.address != _news["address"]:
                raise
            last = self._last_rebuild(_news["server_id"])
            if last <= int(noted.get("rebuilt", 0)):
                raise
            noted = {"rebuilt": last}
            host_key = asyncio.run(wait_for_boot(host_of({**_news, **noted})))
        return UpdateResult({**_news, **noted, "host_key": host_key})

    def _last_rebuild(self, server_id: str) -> int:
        try:
            return last_rebuild(self.cloud(), server_id)
        except ConfigurationError:
            # another program may not have the token in its configuration
            return 0


def last_rebuild(cloud: Cloud, server_id: str) -> int:
    """The ID of the last action that rebuilt a server; 0 if the cloud lists none."""
    actions = everything(fetcher(cloud), f"servers/{server_id}/actions", "")
    rebuilds = (
        action["id"]
        for action in actions
        if action["command"] == "rebuild_server" and action["status"] != "error"
    )
    return max(rebuilds, default=0)


async def wait_for_boot(host: Host) -> str:
    """Waits for cloud-init and returns the server's host key."""
    seconds = PRIVATE_BOOT_SECONDS if host.jump else CONNECT_SECONDS
    async with connect(host, timeout=seconds) as shell:
        await shell.run(WAIT_FOR_CLOUD_INIT, what="cloud-init", timeout=CLOUD_INIT_SECONDS)
        return shell.host_key


class Boot(ProviderResource, provider=BootProvider):
    """A server that has booted. Later connections accept only the host key of this first one."""

    host_key: pulumi.Output[str]


class RootKeyProvider(Provider):
    """Rotates the key. Another way to reach the server doesn't count as a change."""

    id_format = "{server_id}"
    replaced_by = ("server_id",)
    ignored_inputs = ("address", "host_key", "jump")

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Adds the new key, logs in with it, and removes the old one. The old one stays after a failure."""
        if _olds["private_key"] != _news["private_key"]:
            before = host_of({**_news, "private_key": _olds["private_key"]})
            asyncio.run(rotate(before, host_of(_news)))
        return UpdateResult(dict(_news))


class RootKey(ProviderResource, provider=RootKeyProvider):
    """The SSH key of a server."""

    private_key: pulumi.Output[str]  # secret; known when the server accepts it


class NatSetupProvider(ScriptProvider):
    """Runs a script of nat.py on a server without a public address, or on the NAT server."""

    ignored_inputs = ("private_key",)
    what = "configuring the connection to the Internet"


class NatSetup(ProviderResource, provider=NatSetupProvider, type_name="WayOut"):
    """The NAT configuration of a server."""

    host_key: pulumi.Output[str]


@dataclass(frozen=True)
class Gateway:
    """The gateway of servers without a public address."""

    # address and host key of their jump host; None: the program does not connect
    jump: Mapping[str, pulumi.Input[str]] | None
    there: pulumi.Resource  # once it exists, they have access to the Internet


@dataclass(frozen=True)
class ServerArgs:
    """The inputs of a server."""

    spec: ServerSpec  # with its placement
    labels: Mapping[str, str]
    ssh_key: hcloud.SshKey  # root accepts it
    private_key: pulumi.Input[str] | None  # secret; None: the program does not connect or wait
    network: Network
    placement_group: hcloud.PlacementGroup | None  # None: on any host
    firewalls: list[pulumi.Input[int]]
    revision: pulumi.Input[str]  # the server is replaced only when this changes
    types: Sequence[str] = ()  # the wanted one and the actual one, if the type is changed in place
    rollout: pulumi.ResourceOptions = field(default_factory=pulumi.ResourceOptions)  # delays it in a rollout
    protected: bool = False  # against deletion and rebuilds
    gateway: Gateway | None = None  # of a server without a public address; None: it has one
    script: str = ""  # configures NAT; empty: not needed


class Server(pulumi.ComponentResource):
    """A server in the private network."""

    def __init__(self, name: str, args: ServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ccm-from-scratch:index:Server", name, None, opts)
        self.name = args.spec.name  # host name and name of the Node
        # ``control``, ``control-2``, or a pool and a number, such as ``worker-1``; names its resources
        self.role = name
        self.node_labels = dict(args.spec.node_labels)
        self.node_taints = list(args.spec.node_taints)  # as kubectl writes them
        self.server = self._server(name, args)  # what runs on it is deleted with it
        self.public_ip: pulumi.Output[str] = self.server.ipv4_address  # IPv4; empty: it has none
        gone_with = pulumi.ResourceOptions(parent=self, deleted_with=self.server, delete_before_replace=True)
        types = {"types": [*args.types]} if args.types else {}
        place = ServerState(
            name, gone_with, **state_inputs(self.server.id, args.network), revision=args.revision, **types
        )
        self.private_ip: pulumi.Output[str] = place.ip  # known once it is attached
        self.address = self.private_ip if args.gateway else self.public_ip  # at which it is reached
        if not args.gateway:
            # The server is already attached. But stacks of earlier versions have this resource: if it is not
            # declared, Pulumi deletes it and detaches the server.
            hcloud.ServerNetwork(
                name,
                server_id=self.server.id.apply(int),
                subnet_id=args.network.subnet.id,
                opts=pulumi.ResourceOptions.merge(gone_with, pulumi.ResourceOptions(depends_on=[place])),
            )
        self._access = self._boot(args, args.private_key, gone_with) if args.private_key is not None else None
        self.register_outputs({"public_ip": self.public_ip, "private_ip": self.private_ip})

    @property
    def access(self) -> Access:
        """How dynamic resources reach it, known once it has booted; only for one with a private key."""
        assert self._access is not None, "the program has no private key for this server"
        return self._access

    def _boot(
        self, args: ServerArgs, private_key: pulumi.Input[str], options: pulumi.ResourceOptions
    ) -> Access:
        jump = args.gateway.jump if args.gateway else None
        access = Access(self.server.id, self.address, private_key, None, jump)
        access = replace(access, host_key=Boot(self.role, options, **access.inputs()).host_key)
        # after a rotation whatever connects waits until the server knows the new key
        known = RootKey(self.role, options, **access.inputs()).private_key
        access = replace(access, private_key=pulumi.Output.secret(known))
        if not args.script:
            return access
        # what needs the server comes after this
        last = NatSetup(self.role, options, **access.inputs(), script=args.script)
        return replace(access, host_key=last.host_key)

    def _server(self, name: str, args: ServerArgs) -> hcloud.Server:
        options = pulumi.ResourceOptions(
            parent=self,
            # names are unique in a project, so the old one has to go first
            delete_before_replace=True,
            # A change by hand of the server or its SSH key does not replace it.
            replacement_trigger=args.revision,
            ignore_changes=[*IGNORED],
            # attached later, but deleted earlier: a network is busy while its servers go
            depends_on=[*args.network.before_servers, *([args.gateway.there] if args.gateway else [])],
        )
        nowhere = [hcloud.ServerPublicNetArgs(ipv4_enabled=False, ipv6_enabled=False)]
        # A server without any interface does not start, so it is attached as it is made. Aliases are named
        # because of https://github.com/hetznercloud/terraform-provider-hcloud/issues/650
        place = [hcloud.ServerNetworkArgs(subnet_id=args.network.subnet.id, alias_ips=[])]
        return hcloud.Server(
            name,
            name=args.spec.name,
            server_type=args.spec.placement.server_type,
            image=args.spec.image,
            location=args.spec.placement.location,
            ssh_keys=[args.ssh_key.id],
            labels=dict(args.labels),
            placement_group_id=args.placement_group.id.apply(int) if args.placement_group else None,
            firewall_ids=args.firewalls or None,
            public_nets=nowhere if args.gateway else None,
            networks=place if args.gateway else None,
            # Hetzner requires the same value for both. False, not None: with None, the official plugin keeps
            # an existing protection.
            delete_protection=args.protected,
            rebuild_protection=args.protected,
            opts=pulumi.ResourceOptions.merge(options, args.rollout),
        )
