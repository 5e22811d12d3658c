"""Servers as hollow nodes: a server that is on and in a network is a node of the cluster on loopback."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from hetzner_emulator.backend import (
    BackendError,
    GuestEvent,
    MachineSpec,
    NetworkSpec,
    PrivateInterface,
    RecordsBackend,
)
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from sandbox.kubernetes.toolchain import Toolchain

MIB_PER_GB = 1024
ARCHITECTURES = {"x86": "amd64", "arm": "arm64"}
"""Kubernetes' names of architectures."""


@dataclass(frozen=True)
class _Machine:
    spec: MachineSpec
    on: bool

    @property
    def is_node(self) -> bool:
        """A machine without a private address has no way to its cluster."""
        return self.on and bool(self.spec.private)


class HollowBackend(RecordsBackend):
    """The records backend with a cluster: see :class:`hetzner_emulator.backend.Backend`."""

    name = "hollow"

    def __init__(self, toolchain: Toolchain, directory: Path, *, heartbeat: float = 10.0) -> None:
        super().__init__()
        self.control_plane = ControlPlane(toolchain, directory)
        self._heartbeat = heartbeat
        self._machines: dict[int, _Machine] = {}
        self._nodes: HollowNodes | None = None
        self._stack = AsyncExitStack()

    async def start(
        self, networks: Sequence[NetworkSpec], machines: Mapping[MachineSpec, bool], events: GuestEvent
    ) -> None:
        """Start the control plane and a hollow node for every server that is on."""
        await super().start(networks, machines, events)
        await self._stack.enter_async_context(self.control_plane)
        nodes = HollowNodes(
            self.control_plane.url, self.control_plane.directory / "tls", heartbeat=self._heartbeat
        )
        self._nodes = await self._stack.enter_async_context(nodes)
        for spec, on in machines.items():
            await self._put(_Machine(spec, on))

    async def stop(self) -> None:
        """End heartbeats and the control plane."""
        await self._stack.aclose()

    async def create_machine(self, machine: MachineSpec) -> None:
        """Remember what the node will look like."""
        await self._put(_Machine(machine, on=False))

    async def power_on(self, server_id: int) -> None:
        """The node registers, or its heartbeat continues."""
        await self._put(replace(self._machines[server_id], on=True))

    async def power_off(self, server_id: int) -> None:
        """The heartbeat ends; the Node becomes NotReady when Kubernetes notices."""
        await self._put(replace(self._machines[server_id], on=False))

    async def shutdown(self, server_id: int) -> None:
        """A hollow guest obeys at once."""
        await self.power_off(server_id)
        await super().shutdown(server_id)

    async def attach(self, server_id: int, interface: PrivateInterface, network: NetworkSpec) -> None:
        """A server that is on becomes a node with its first private address."""
        await super().attach(server_id, interface, network)
        machine = self._machines[server_id]
        others = tuple(i for i in machine.spec.private if i.network_id != interface.network_id)
        await self._put(replace(machine, spec=replace(machine.spec, private=(*others, interface))))

    async def detach(self, server_id: int, network_id: int) -> None:
        """Without a private address it can't reach its cluster any more."""
        machine = self._machines[server_id]
        left = tuple(i for i in machine.spec.private if i.network_id != network_id)
        await self._put(replace(machine, spec=replace(machine.spec, private=left)))

    async def delete_machine(self, server_id: int) -> None:
        """The heartbeat ends; deleting the Node object is the CCM's business."""
        machine = self._machines.pop(server_id, None)
        if machine and self._nodes:
            await self._nodes.power_off(machine.spec.name)

    @property
    def heartbeats(self) -> list[str]:
        """The names of the nodes that send heartbeats."""
        return self._nodes.names if self._nodes else []

    async def _put(self, machine: _Machine) -> None:
        assert self._nodes is not None, "the backend has been started"
        self._machines[machine.spec.id] = machine
        if not machine.is_node:
            await self._nodes.power_off(machine.spec.name)
            return
        node = HollowNode(
            machine.spec.name,
            node_ip=machine.spec.private[0].ip,
            cores=machine.spec.cores,
            memory_mib=int(machine.spec.memory * MIB_PER_GB),
            architecture=ARCHITECTURES[machine.spec.architecture],
        )
        try:
            await self._nodes.power_on(node)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BackendError(f"node {node.name} can't join the cluster: {error}") from error
