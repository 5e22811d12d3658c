"""Servers of Hetzner Cloud and of Robot as the machines of Nodes."""

import time
from collections.abc import Callable, Mapping, Sequence

from ccm.cloud.errors import CloudError, InstanceNotFound, Notice
from ccm.cloud.instances import Instance, NodeView
from ccm.hetzner import provider_id
from ccm.hetzner.api import HetznerApi, ListCache, Priority
from ccm.hetzner.api.models import Server
from ccm.hetzner.official_metrics import OfficialMetrics
from ccm.hetzner.project import Project
from ccm.hetzner.robot.machines import RobotMachines
from ccm.hetzner.server_to_instance import InstanceOptions, describe
from ccm.hetzner.servers import REASON, Servers

_OPERATION = "hcloud/instancesv2.InstanceMetadata"  # the official CCM's name for all requests


class HetznerInstances:
    """Implements :class:`ccm.cloud.Instances` for Cloud and Robot servers.

    Args:
        scheme: The prefix of provider IDs of Cloud servers.
        options: Returns the options; called each time, because the network is unknown before the start.
        robot: Robot's servers, or None if Robot is disabled or has no credentials.
        max_age: Maximum age of a Cloud server's data in seconds; None = the controller decides.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: ListCache[Server],
        scheme: str,
        options: Callable[[], InstanceOptions],
        *,
        project: Project,
        metrics: OfficialMetrics,
        robot: RobotMachines | None = None,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        robots = robot.servers if robot is not None else None
        self._servers = Servers(api, servers, project=project, metrics=metrics, robots=robots, clock=clock)
        self._scheme = scheme
        self._options = options
        self._metrics = metrics
        self._robot = robot
        self._max_age = max_age

    def owns(self, provider_id_: str) -> bool:
        """See :meth:`ccm.cloud.Instances.owns`."""
        return provider_id.owns(provider_id_, self._scheme)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """See :meth:`ccm.cloud.Instances.get`."""
        self._metrics.operation(_OPERATION)
        return await self._answer(node, accepted_age)

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        """See :meth:`ccm.cloud.Instances.list`."""
        cached = self._servers.cached
        listed = len(nodes) > cached.pages or cached.age is None
        if listed:
            await cached.read(self._accepted(accepted_age), Priority.SWEEP)
        answers: dict[str, Instance | CloudError] = {}
        for node in nodes:
            self._metrics.operation(_OPERATION)
            try:
                answers[node.name] = await self._answer(node, accepted_age, listed=listed)
            except CloudError as error:
                answers[node.name] = error
        return answers

    async def _answer(self, node: NodeView, accepted_age: float, *, listed: bool = False) -> Instance:
        """Describe a Node's machine; ``listed``: treat the cached list of Cloud servers as complete."""
        machine = provider_id.parse(node.provider_id, self._scheme) if node.provider_id else None
        if machine is not None and machine.kind == "robot":
            if self._robot is None:
                # The server may exist, so don't raise InstanceNotFound.
                raise CloudError(
                    f"Robot server {machine.number} can't be read: set ROBOT_ENABLED, ROBOT_USER and "
                    "ROBOT_PASSWORD"
                )
            options = self._options()
            return await self._robot.get(node, machine.number, options, accepted_age=accepted_age)
        if machine is None and self._robot is not None:
            return await self._get_by_name_anywhere(node, self._robot, accepted_age)
        number = machine.number if machine is not None else None
        server = await self._servers.find(node, number, self._accepted(accepted_age), listed=listed)
        return describe(server, self._options(), node.annotations)

    def _accepted(self, age: float) -> float:
        """Maximum age of Hetzner Cloud's data; 0 stays 0. Robot has its own variable."""
        return age if self._max_age is None or age == 0 else self._max_age

    async def _get_by_name_anywhere(
        self, node: NodeView, robot: RobotMachines, accepted_age: float
    ) -> Instance:
        """Find the Cloud or Robot server of a Node without provider ID; raises CloudError if both exist."""
        dedicated = await robot.find(node.name)
        try:
            server = await self._servers.find(node, None, self._accepted(accepted_age))
        except InstanceNotFound:
            if dedicated is None:
                raise
            return await robot.describe(dedicated, node, self._options(), accepted_age=accepted_age)
        if dedicated is not None:
            message = f"Hetzner Cloud and Robot both have a server named {node.name}; rename one of them"
            raise CloudError(message, notices=[Notice(REASON, message)])
        return describe(server, self._options(), node.annotations)
