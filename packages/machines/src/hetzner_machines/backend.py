"""The cloud's servers, networks and load balancers as machines on this host."""

import asyncio
import logging
import platform
import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from hetzner_emulator.backend import (
    AttachedVolume,
    FirewallRule,
    GuestEvent,
    MachineSpec,
    NetworkSpec,
    PrivateInterface,
    VolumeSpec,
)
from hetzner_machines import (
    cleanup,
    counters,
    disk,
    firewalls,
    link_local,
    machine,
    namespaces,
    records,
    resolver,
    runner,
    snapshots,
)
from hetzner_machines.balancer.balancers import LoadBalancers
from hetzner_machines.disk import Image
from hetzner_machines.errors import VolumeBusy
from hetzner_machines.fabric import Fabric
from hetzner_machines.fleet import Fleet
from hetzner_machines.link_local import LinkLocal, Listen
from hetzner_machines.names import Names
from hetzner_machines.volumes import Volumes

log = logging.getLogger(__name__)

_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm"}
"""Maps the machine name that ``uname -m`` prints to Hetzner's name of the processor architecture."""


class MachinesBackend:
    """Runs servers as Linux machines; see :class:`hetzner_emulator.backend.Backend`.

    Args:
        site_id: Six hexadecimal digits, in the name of everything that is made on the host.
        state: Folder on a plain disk; machines are in ``machines/`` below it.
        public_range: Addresses for servers and load balancers, except the first four.
        image: Image of servers.
        run: Runs programs of the host.
        internet: Whether machines reach the Internet through the host.
        name_servers: Name servers of machines in that case.
    """

    name = "machines"

    def __init__(
        self,
        site_id: str,
        state: Path,
        public_range: IPv4Network,
        image: Image,
        run: runner.Runner = runner.run,
        *,
        internet: bool = False,
        name_servers: resolver.Servers = resolver.of_this_host,
    ) -> None:
        self._names = Names(site_id)
        self._state = state.resolve()
        self._run = run
        self._volumes = Volumes(self._state / "volumes")
        self._fabric = Fabric(self._names, public_range, run)
        self._internet = internet
        self._resolver = resolver.Resolver(name_servers)
        self._link_local = LinkLocal(self._names, self._resolver if internet else None)
        self._networks: dict[int, NetworkSpec] = {}
        self._fleet = Fleet(
            self._names,
            self._state,
            image,
            fabric=self._fabric,
            networks=self._networks,
            volumes=self._volumes,
        )
        folder = self._state / "load-balancers"
        self._balancers = LoadBalancers(self._names, folder, self._fabric, self._networks)
        self.power_on, self.power_off = self._fleet.power_on, self._fleet.power_off
        self.reset, self.delete_machine = self._fleet.reset, self._fleet.delete
        self.put_load_balancer, self.delete_load_balancer = self._balancers.put, self._balancers.delete
        self.target_health, self.target_failures = self._balancers.health, self._balancers.failures

    async def serve_http(self, listen: Listen) -> None:
        """Serve HTTP to machines at 169.254.169.254; call it after :meth:`start`."""
        await self._link_local.serve_http(listen, list(self._networks))

    def network_of(self, connection: socket.socket) -> int | None:
        """The network through which a connection came, or None."""
        return link_local.network_of(connection)

    async def start(
        self, networks: Sequence[NetworkSpec], machines: Mapping[MachineSpec, bool], events: GuestEvent
    ) -> None:
        """Reconcile the host: adopt running machines, start missing ones, remove unknown ones.

        A machine that can't be started is reported as off, with the reason in the log: the others start.
        """
        await self._fabric.ensure_router()
        # whatever an earlier sandbox did
        await (self._fabric.let_out() if self._internet else self._fabric.keep_in())
        await self._link_local.open(None)
        await self._remove_unknown({n.id for n in networks}, {m.id for m in machines})
        attached = {each.volume.id for spec in machines for each in spec.volumes}
        await asyncio.to_thread(self._volumes.release_others, attached)
        for network in networks:
            await self.put_network(network)
        await self._fleet.start(machines, events)

    async def _remove_unknown(self, networks: set[int], servers: set[int]) -> None:
        """Remove machines and networks that a crash or a deleted state left."""
        found = self._fleet.made()
        for namespace in namespaces.listing():
            kind, number = self._names.parse(namespace) or ("", 0)
            if kind == "srv":
                found.add(number)
            elif kind == "net" and number not in networks:
                await self._fabric.delete_network(number)
        for server_id in sorted(found - servers):
            await self.delete_machine(server_id)

    async def stop(self) -> None:
        """Stop watching; machines stay up, and :meth:`start` adopts them."""
        await self._fleet.watcher.close()
        await self._balancers.close()
        await self._resolver.close()

    async def remove_all(self) -> None:
        """Remove everything of this site from the host except the HTTP server; :meth:`start` can follow."""
        await self._fleet.watcher.close()
        await self._balancers.close()
        await self._link_local.close_all()
        await asyncio.to_thread(cleanup.remove_all, self._names.site, self._state)
        self._fleet.all.clear()
        self._networks.clear()

    async def put_network(self, network: NetworkSpec) -> None:
        """Create a network's namespace or change its kernel routes."""
        if not await self._fabric.has_network(network.id):
            await self._link_local.close(network.id)  # sockets of a network that lost its name
        await self._fabric.ensure_network(network)
        await self._link_local.open(network.id)
        self._networks[network.id] = network

    async def delete_network(self, network_id: int) -> None:
        """Remove a network's namespace."""
        await self._link_local.close(network_id)
        await self._fabric.delete_network(network_id)
        self._networks.pop(network_id, None)

    async def create_machine(self, machine: MachineSpec) -> None:
        """Make a machine's disk; raises DiskFull."""
        own = _ARCHITECTURES.get(platform.machine())
        if machine.architecture != own:
            log.warning(
                "the type of server %s has the architecture %s, but the machine of this server has the "
                "architecture of this host, %s",
                machine.name,
                machine.architecture,
                own,
            )
        await self._fleet.create(machine)

    async def shutdown(self, server_id: int) -> None:
        """Ask the guest to power off; the event follows its end."""
        await self._fleet.signal(server_id, records.POWEROFF_SIGNAL)

    async def reboot(self, server_id: int) -> None:
        """Ask the guest to reboot; the event follows its start. A machine that is off stays off."""
        await self._fleet.signal(server_id, records.REBOOT_SIGNAL)

    async def attach(self, server_id: int, interface: PrivateInterface, network: NetworkSpec) -> None:
        """Attach a running machine to a network, or record it for the next start."""
        async with self._fleet.lock(server_id):
            known = self._fleet.known(server_id)
            if network.id not in self._networks:
                await self.put_network(network)
            before = known.interface(network.id)
            same = before and (before.ip, before.mac_address) == (interface.ip, interface.mac_address)
            after = known.with_interface(interface)
            self._fleet.keep(after)
            if known.keeper is None:
                return
            if before and same and await self._fabric.plugged(f"s{server_id}", network.id):
                await self._fabric.change_aliases(before.alias_ips, interface)
                return
            if before:
                await self._fabric.unplug(known.spec, before)
            await self._fabric.plug(after.spec, interface, network, after.slots[network.id])

    async def detach(self, server_id: int, network_id: int) -> None:
        """Detach a machine from a network; a missing one is fine."""
        async with self._fleet.lock(server_id):
            known = self._fleet.all.get(server_id)
            if known is None:
                return
            interface = known.interface(network_id)
            if interface:
                await self._fabric.unplug(known.spec, interface)
            after = known.without_interface(network_id)
            self._fleet.keep(after)

    async def create_image(self, image_id: int, server_id: int) -> float:
        """Copy a machine's disk; a running machine is frozen meanwhile."""
        async with self._fleet.lock(server_id):
            known = self._fleet.known(server_id)
            target = self._state / snapshots.FOLDER / str(image_id)
            running = known.keeper is not None
            return await asyncio.to_thread(snapshots.keep, known.directory, target, running=running)

    async def delete_image(self, image_id: int) -> None:
        """Remove the copy."""
        await asyncio.to_thread(disk.remove, self._state / snapshots.FOLDER / str(image_id))

    async def assign_floating_ip(self, server_id: int, address: str) -> None:
        """Route an address to a running machine, or record it for the next start."""
        async with self._fleet.lock(server_id):
            known = self._fleet.known(server_id)
            after = known.with_floating_ips(sorted({*known.spec.floating_ips, address}))
            self._fleet.keep(after)
            if known.keeper:
                await self._fabric.ensure_public(after.spec)

    async def unassign_floating_ip(self, server_id: int, address: str) -> None:
        """Remove the route of an address; a missing machine is fine."""
        async with self._fleet.lock(server_id):
            await self._fabric.unroute(server_id, [address])
            if known := self._fleet.all.get(server_id):
                after = known.with_floating_ips([ip for ip in known.spec.floating_ips if ip != address])
                self._fleet.keep(after)

    async def put_volume(self, volume: VolumeSpec) -> None:
        """Make a volume, or enlarge it, in use or not."""
        await asyncio.to_thread(self._volumes.put, volume)

    async def delete_volume(self, volume_id: int) -> None:
        """Remove a volume with its data."""
        await asyncio.to_thread(self._volumes.delete, volume_id)

    async def attach_volume(self, server_id: int, volume: AttachedVolume) -> None:
        """Attach a volume to a running machine, or record it for the next start."""
        async with self._fleet.lock(server_id):
            known = self._fleet.known(server_id)
            others = [each for each in known.spec.volumes if each.volume.id != volume.volume.id]
            after = known.with_volumes([*others, volume])
            disks = await asyncio.to_thread(self._fleet.disks, after)
            if known.keeper:
                await asyncio.to_thread(machine.let_open, known, disks)
                await asyncio.to_thread(machine.show, known, disks[-1])
            self._fleet.keep(after)

    async def detach_volume(self, server_id: int, volume_id: int) -> None:
        """Detach a volume from a machine; VolumeBusy if it is mounted or open, other than by automount."""
        async with self._fleet.lock(server_id):
            known = self._fleet.all.get(server_id)
            number = await asyncio.to_thread(self._volumes.number, volume_id)
            if known and known.keeper and number is not None:
                await asyncio.to_thread(machine.hide, known, volume_id, number)
            try:
                await asyncio.to_thread(self._volumes.release, volume_id)
            except VolumeBusy:
                if known and known.keeper:
                    disks = await asyncio.to_thread(self._fleet.disks, known)
                    (disk,) = (each for each in disks if each.volume == volume_id)
                    await asyncio.to_thread(machine.show, known, disk)
                raise
            if known is None:
                return
            after = known.with_volumes([each for each in known.spec.volumes if each.volume.id != volume_id])
            if known.keeper:
                disks = await asyncio.to_thread(self._fleet.disks, after)
                await asyncio.to_thread(machine.let_open, known, disks)
            self._fleet.keep(after)

    async def put_firewalls(self, wanted: Mapping[int, tuple[FirewallRule, ...]]) -> None:
        """Filter in the router, where a machine's root can't change the rules."""
        command = runner.inside(self._names.router, "nft", "-f", "-")
        await self._run(command, firewalls.ruleset(self._names.firewalls, wanted))

    async def measure(self) -> Mapping[tuple[str, int], Mapping[str, float]]:
        """Counters of cgroups, ports and load balancers since their start."""
        links = {link["ifname"]: link for link in await self._fabric.links()}
        measured: dict[tuple[str, int], Mapping[str, float]] = {
            ("load_balancer", number): totals for number, totals in (await self._balancers.measure()).items()
        }
        running = [known for known in self._fleet.all.values() if known.keeper is not None]
        for known in running:
            boot = records.read_boot(known.directory / "boot.json")
            link = links.get(f"p{known.spec.id}")
            network = counters.of_port(link) if link else {}
            measured["server", known.spec.id] = counters.of_cgroups(boot.hierarchies) | network
        return measured
