"""The machines' network: namespaces, links and routes by iproute2, as ``topology`` plans them."""

import asyncio
import json
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface
from hetzner_machines import internet, ipv6, namespaces, topology
from hetzner_machines.errors import BackendError, CommandFailed, NotPermitted
from hetzner_machines.names import Names
from hetzner_machines.runner import Runner, inside, ip

log = logging.getLogger(__name__)


class Fabric:
    """Router, networks and the interfaces of machines in them."""

    def __init__(self, names: Names, public_range: IPv4Network, run: Runner) -> None:
        self._names = names
        self._range = public_range
        self._run = run
        self._ipv6 = ipv6.KERNEL.is_dir()

    async def ensure_router(self) -> None:
        """Make the router and its link to the host; BackendError if the host uses the public range itself."""
        link, router = self._names.host_link, self._names.router
        user = await self._user_of(self._range)
        if user:
            raise BackendError(
                f"the address range {self._range} for the public addresses of servers is already in use "
                f"on this host by {user}. If another clone uses the range, run './dev down --force' in "
                "that clone. Otherwise, remove the address or route"
            )
        routes = await self._show(None, f"-4 route show {self._range}")
        connected = any(route.get("dev") == link for route in routes)
        if not (connected and namespaces.exists(router) and await self.has_link(router, "uplink")):
            await self.delete_link(None, link)
            await asyncio.to_thread(self._make_router_like, router)
            await self.delete_link(router, "uplink")
            await self._ip(None, topology.host_lines(link, router, self._range))
        await self._ip(router, topology.router_lines(self._range))
        await self._ensure_ipv6()

    async def _user_of(self, public_range: IPv4Network | IPv6Network) -> str | None:
        """What else on the host uses a range."""
        family = f"-{public_range.version}"
        addresses = await self._show(None, f"{family} addr show")
        routes = await self._show(None, f"{family} route show table all")
        return topology.range_in_use(public_range, self._names.host_link, addresses, routes)

    async def _ensure_ipv6(self) -> None:
        """Set up IPv6 from the host to machines; if that is impossible, log the reason."""
        link, own = self._names.host_link, ipv6.of_site(self._names.site)
        reason = ipv6.obstacle(link) or await self._user_of(own)
        if reason:
            log.warning("this host can't reach the IPv6 addresses of machines: %s", reason)
            return
        await self._ip(None, topology.ipv6_host_lines(link, own))
        await self._ip(self._names.router, topology.ipv6_router_lines(own))

    async def let_out(self) -> None:
        """Route machines to the host's default route; raises NoWayOut."""
        await asyncio.to_thread(internet.open_way, self._names, self._range)
        await self._ip(self._names.router, topology.way_out_lines(self._range))

    async def keep_in(self) -> None:
        """Undo :meth:`let_out`, which requires nftables on the host."""
        if shutil.which("nft"):
            await asyncio.to_thread(internet.close_way, self._names)
        await self._try(self._names.router, ["route del default dev uplink"])

    def _make_router_like(self, name: str) -> None:
        _make(name, topology.FORWARDING | (topology.FORWARDING_V6 if self._ipv6 else {}))

    async def has_network(self, network_id: int) -> bool:
        """Whether a network exists, and is complete."""
        name = self._names.network(network_id)
        return namespaces.exists(name) and await self.has_link(name, "br0")

    async def ensure_network(self, network: NetworkSpec) -> None:
        """Make or change a network."""
        name = self._names.network(network.id)
        if not await self.has_network(network.id):
            await self.delete_network(network.id)
            await asyncio.to_thread(self._make_router_like, name)
            await self._ip(name, topology.network_link_lines(network.id))
        addresses = await self._show(name, "addr show dev br0")
        routes = await self._show(name, "-4 route show")
        changes = topology.network_changes(network, addresses, routes)
        await self._ip(name, [*topology.metadata_lines(), *changes])

    async def delete_network(self, network_id: int) -> None:
        """Remove a network with its interfaces."""
        await asyncio.to_thread(namespaces.delete, self._names.network(network_id))

    async def create_server(
        self, machine: MachineSpec, slots: Mapping[int, int], networks: Mapping[int, NetworkSpec]
    ) -> None:
        """Make a machine's namespace again, with all its interfaces."""
        name = self._names.server(machine.id)
        await self.delete_server(machine.id)
        await self.make(name, topology.MACHINE)
        await self.ensure_public(machine)
        for interface in machine.private:
            await self.plug(machine, interface, networks[interface.network_id], slots[interface.network_id])

    async def ensure_public(self, machine: MachineSpec) -> None:
        """Connect a machine's namespace to the router if necessary."""
        port = f"p{machine.id}"
        if topology.has_public(machine) and not await self.has_link(self._names.router, port):
            name, mac = self._names.server(machine.id), topology.public_mac(machine.id)
            await self.plug_public(port, name, mac, machine.public_ipv4, machine.public_ipv6)
        if topology.has_public(machine):
            await self._ip(
                self._names.router, topology.floating_lines(port, self._usable(machine.floating_ips))
            )

    def _usable(self, addresses: Iterable[str]) -> list[str]:
        """The public addresses whose family the host's kernel has."""
        return [address for address in addresses if self._ipv6 or ":" not in address]

    async def unroute(self, server_id: int, addresses: Iterable[str]) -> None:
        """Remove the routes of floating IPs; missing ones are fine."""
        lines = topology.floating_lines(f"p{server_id}", self._usable(addresses))
        await self._try(self._names.router, [line.replace("replace", "del") for line in lines])

    async def plug_public(
        self, port: str, namespace: str, mac: str, ipv4: str | None, ipv6: str | None
    ) -> None:
        """Connect a namespace to the router with its public addresses."""
        ipv6 = ipv6 if self._ipv6 else None
        await self._ip(self._names.router, topology.public_port_lines(port, namespace, mac, ipv4, ipv6))
        await self._ip(namespace, topology.public_end_lines(ipv4, ipv6))

    async def plug(
        self, machine: MachineSpec, interface: PrivateInterface, network: NetworkSpec, slot: int
    ) -> None:
        """Connect a machine's namespace, running or not, to a network."""
        metadata = topology.asks_in_networks(machine)
        port, name = topology.port(machine.id), self._names.server(machine.id)
        await self.plug_private(
            port, name, topology.private_device(slot), interface, network, metadata=metadata
        )

    async def plug_private(
        self,
        port: str,
        namespace: str,
        device: str,
        interface: PrivateInterface,
        network: NetworkSpec,
        *,
        metadata: bool,
    ) -> None:
        """Connect a namespace to a network; replaces a port that a crash left."""
        inside = self._names.network(network.id)
        if await self.has_link(inside, port):
            await self.delete_link(inside, port)
        await self._ip(inside, topology.private_port_lines(port, namespace, device, interface))
        await self._ip(
            namespace, topology.private_end_lines(device, interface.ip, network, metadata=metadata)
        )
        await self._ip(inside, [f"link set dev {port} alias {topology.PLUGGED}"])

    async def plugged(self, port: str, network_id: int) -> bool:
        """Whether a port in a network is connected."""
        name = self._names.network(network_id)
        links = await self._show(name, "link show") if namespaces.exists(name) else []
        return any(link["ifname"] == port and link.get("ifalias") == topology.PLUGGED for link in links)

    async def change_aliases(self, before: Iterable[str], interface: PrivateInterface) -> None:
        """Change the alias addresses of a member."""
        await self._ip(self._names.network(interface.network_id), topology.neighbor_lines(before, interface))

    async def unplug(self, machine: MachineSpec, interface: PrivateInterface) -> None:
        """Disconnect a machine from a network; a disconnected one is fine."""
        network = self._names.network(interface.network_id)
        await self.delete_link(network, topology.port(machine.id))
        if namespaces.exists(network):
            await self._try(network, topology.forget_lines(interface))

    async def delete_server(self, server_id: int) -> None:
        """Remove a machine's namespace and its ports in the router and in all networks."""
        await self.delete_link(self._names.router, f"p{server_id}")
        await self.delete_private_ports(topology.port(server_id))
        await asyncio.to_thread(namespaces.delete, self._names.server(server_id))

    async def delete_private_ports(self, port: str) -> None:
        """Remove a port from its network."""
        for name in namespaces.listing():
            kind, _ = self._names.parse(name) or ("", 0)
            if kind == "net":
                await self.delete_link(name, port)

    async def make(self, namespace: str, settings: Mapping[str, str]) -> None:
        """Make a namespace with only a loopback interface."""
        await asyncio.to_thread(_make, namespace, settings)
        await self._ip(namespace, ["link set lo up"])

    async def ignore_icmp_errors(self, namespace: str) -> None:
        """Let connections from a namespace time out when a router or a peer rejects them."""
        await self._run(inside(namespace, "nft", "-f", "-"), topology.NO_ICMP_ERRORS)

    async def _ip(self, namespace: str | None, lines: Sequence[str]) -> None:
        if lines:
            await self._run(ip(namespace, "-batch", "-"), "\n".join(lines) + "\n")

    async def _try(self, namespace: str | None, lines: Sequence[str]) -> None:
        """Run each command; ignores missing objects."""
        for line in lines:
            try:
                await self._ip(namespace, [line])
            except CommandFailed as error:
                if not any(
                    text in error.output for text in ("No such process", "No such file", "Cannot find")
                ):
                    raise

    async def _show(self, namespace: str | None, what: str) -> list[dict[str, Any]]:
        return json.loads(await self._run(ip(namespace, "-json", *what.split()), "") or "[]")

    async def has_link(self, namespace: str | None, link: str) -> bool:
        """Whether an interface of that name exists."""
        return any(entry["ifname"] == link for entry in await self._show(namespace, "link show"))

    async def links(self) -> list[dict[str, Any]]:
        """The router's interfaces with their counters, from ``ip -stats -json link``."""
        return await self._show(self._names.router, "-stats link show")

    async def delete_link(self, namespace: str | None, link: str) -> None:
        """Remove an interface; a missing one is fine."""
        if namespace is not None and not namespaces.exists(namespace):
            return
        if await self.has_link(namespace, link):  # it may disappear with its other end meanwhile
            await self._try(namespace, [f"link del {link}"])


def _make(name: str, settings: Mapping[str, str]) -> None:
    try:
        namespaces.create(name)
        namespaces.set_kernel(name, settings)
    except OSError as error:
        raise NotPermitted(f"make the network namespace {name}", error) from error
