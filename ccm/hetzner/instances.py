"""Servers as the machines of Nodes.

Two ways lead to a server: a list of all (one request for 50) and a look at one. The cheaper way is not
known in advance, so this plays the ski-rental strategy: single looks, until they have cost as much as a list
within a short time; then a list, which also serves everybody else. It costs at most twice the optimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ccm.cloud.errors import CloudError, InstanceNotFound
from ccm.cloud.instances import Instance, NodeView
from ccm.cloud.notice import Notice
from ccm.hetzner import provider_id
from ccm.hetzner.api import Contents, HetznerApi, Listing, Priority, View
from ccm.hetzner.api.errors import NotFound, unavailable
from ccm.hetzner.api.wire import Server
from ccm.hetzner.description import DescriptionOptions, describe
from ccm.hetzner.lookup import REASON, explain_absence
from ccm.hetzner.metrics import OfficialMetrics
from ccm.hetzner.project import Project
from ccm.hetzner.provider_id import MachineId
from ccm.hetzner.robot.machines import RobotMachines
from ccm.kube.ratelimit import TokenBucket

MISSES_AT_ONCE = 10  # of servers that are not there; each takes a request, and goes before all others
MISS_SECONDS = 60.0  # until one more is asked for; until then a list as old says that they are not there
BURST = 30.0  # seconds after which single looks are forgotten: a list would not have served them together
_OPERATION = "hcloud/instancesv2.InstanceMetadata"  # as the official CCM calls it; one answer tells all


class RobotUnknown(CloudError):
    """The Node is a Robot server, and we have no access to Robot: nothing may be concluded."""


class AmbiguousName(CloudError):
    """Two machines have the Node's name, and it has no provider ID yet."""


class HetznerInstances:
    """Implements :class:`ccm.cloud.Instances`.

    Args:
        servers: The shared view of servers.
        options: What Nodes get; asked each time because the network is known only after the start.
        project: Tells whether the absence of a server means anything.
        metrics: Where lookups are counted.
        robot: Robot's servers; None = Robot is not enabled, or there are no credentials for it.
        max_age: How old a Cloud server's data may be, whatever a controller would accept; None = as it likes.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: View[Server],
        options: Callable[[], DescriptionOptions],
        *,
        project: Project,
        metrics: OfficialMetrics,
        robot: RobotMachines | None = None,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._servers = servers
        self._options = options
        self._project = project
        self._metrics = metrics
        self._robot = robot
        self._max_age = max_age
        self._clock = clock
        self._looks = 0
        self._looked_at = 0.0
        self._misses = TokenBucket(1 / MISS_SECONDS, MISSES_AT_ONCE)
        self._asks_again = 0.0

    def owns(self, provider_id_: str) -> bool:
        """See :meth:`ccm.cloud.Instances.owns`."""
        return provider_id.owns(provider_id_, self._scheme)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """See :meth:`ccm.cloud.Instances.get`."""
        self._metrics.operation(_OPERATION)
        machine = self._machine(node)
        if machine is not None and machine.kind == "robot":
            if self._robot is None:
                raise _robot_unknown(machine)
            options = self._options()
            return await self._robot.get(node, machine.number, options, accepted_age=accepted_age)
        if machine is None and self._robot is not None:
            return await self._get_by_name_anywhere(node, self._robot, accepted_age)
        return self._describe(await self._get_server(node, machine, self._accepted(accepted_age)), node)

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        """See :meth:`ccm.cloud.Instances.list`."""
        listed = len(nodes) > self._servers.pages or self._servers.age is None
        if listed:
            await self._servers.read(self._accepted(accepted_age), Priority.SWEEP)
        answers: dict[str, Instance | CloudError] = {}
        for node in nodes:
            if listed and not self._may_be_dedicated(node):
                self._metrics.operation(_OPERATION)
                answers[node.name] = self._in_list(node, self._servers.contents)
                continue
            try:
                answers[node.name] = await self.get(node, accepted_age=accepted_age)
            except CloudError as error:
                answers[node.name] = error
        return answers

    def _may_be_dedicated(self, node: NodeView) -> bool:
        """Whether Robot has to be asked about a Node, too."""
        try:
            machine = self._machine(node)
        except CloudError:
            return False
        return self._robot is not None and (machine is None or machine.kind == "robot")

    @property
    def _scheme(self) -> str:
        return self._options().dialect.scheme

    def _accepted(self, age: float) -> float:
        """How old an answer of Hetzner Cloud may be; 0 asks in any case. Robot's have their own variable."""
        return age if self._max_age is None or age == 0 else self._max_age

    def _machine(self, node: NodeView) -> MachineId | None:
        return provider_id.parse(node.provider_id, self._scheme) if node.provider_id else None

    async def _get_server(self, node: NodeView, machine: MachineId | None, accepted_age: float) -> Server:
        known = self._known(node, machine, accepted_age)
        self._metrics.lookup("instances_v2", hit=known is not None)
        return known or await self._find(node, machine, accepted_age)

    async def _get_by_name_anywhere(
        self, node: NodeView, robot: RobotMachines, accepted_age: float
    ) -> Instance:
        """A Node without provider ID may be either; if it could be both, nobody can tell."""
        dedicated = await robot.find(node.name)
        try:
            server = await self._get_server(node, None, self._accepted(accepted_age))
        except InstanceNotFound:
            if dedicated is None:
                raise
            return await robot.describe(dedicated, node, self._options(), accepted_age=accepted_age)
        if dedicated is not None:
            message = f"Hetzner Cloud and Robot both have a server named {node.name}; rename one of them"
            raise AmbiguousName(message, notices=[Notice(REASON, message)])
        return self._describe(server, node)

    def _known(self, node: NodeView, machine: MachineId | None, accepted_age: float) -> Server | None:
        """What the view has, if it is fresh enough."""
        contents = self._servers.contents
        by_name = contents.by_name.get(node.name)
        server = contents.by_id.get(machine.number) if machine else by_name
        age = self._servers.item_age(server.id) if server else None
        return server if age is not None and age <= accepted_age else None

    async def _find(self, node: NodeView, machine: MachineId | None, accepted_age: float) -> Server:
        if accepted_age > 0 and self._clock() < self._asks_again:
            # A kubelet may invent any number of Nodes: one list answers for all. What it has may be
            # another server by now, and is asked for.
            contents = await self._servers.read(max(accepted_age, MISS_SECONDS), Priority.NODES)
            answer = self._search(node, machine, contents)
            if not isinstance(answer, Server):
                raise self._absent(node) if machine is None else answer
        if accepted_age > 0 and self._list_pays():
            self._looks = 0
            answer = self._search(node, machine, await self._servers.read(accepted_age, Priority.NODES))
            if isinstance(answer, Server):
                return answer
        try:
            return await (self._look_by_id(machine.number) if machine else self._look_by_name(node))
        except InstanceNotFound:
            now = self._clock()
            self._asks_again = now + self._misses.reserve(now, MISS_SECONDS)
            raise

    def _list_pays(self) -> bool:
        """Whether single looks have cost as much as a list by now; counts the look that follows if not."""
        if self._servers.age is None:
            return True
        now = self._clock()
        if now - self._looked_at > BURST:
            self._looks = 0
        self._looked_at = now
        self._looks += 1
        return self._looks > self._servers.pages

    async def _look_by_id(self, number: int) -> Server:
        with self._api.token.hold():
            try:
                server = await self._api.get(f"/servers/{number}", "server", Server, priority=Priority.NODES)
            except NotFound:
                await self._project.check(Priority.NODES)
                self._servers.remove(number)
                raise InstanceNotFound(f"server {number}") from None
            self._servers.put(server)
            return server

    async def _look_by_name(self, node: NodeView) -> Server:
        name = node.name
        dedicated = self._robot.servers.contents if self._robot else None
        with self._api.token.hold():
            found: Listing[Server] = await self._api.list(
                "/servers", "servers", Server, params={"name": name}, priority=Priority.NODES
            )
            # What Robot has may be missing here in any project.
            is_dedicated = dedicated is not None and name in dedicated.by_name
            if not found.items and not found.odd and not is_dedicated:
                await self._project.check_new_token(Priority.NODES)
        if found.odd:
            raise unavailable(f"GET /servers?name={name}", found.odd[0].problem)
        if not found.items:
            raise self._absent(node)
        self._servers.put(found.items[0])
        return found.items[0]

    def _absent(self, node: NodeView) -> InstanceNotFound:
        robots = self._robot.servers.contents.by_id.values() if self._robot else None
        why = explain_absence(node, self._servers.contents.by_id.values(), robots)
        return InstanceNotFound(f"server named {node.name}", notices=[why])

    def _in_list(self, node: NodeView, contents: Contents[Server]) -> Instance | CloudError:
        try:
            machine = self._machine(node)
            if machine is not None and machine.kind == "robot":
                return _robot_unknown(machine)
            answer = self._search(node, machine, contents)
            return self._describe(answer, node) if isinstance(answer, Server) else answer
        except CloudError as error:
            return error

    @staticmethod
    def _search(node: NodeView, machine: MachineId | None, contents: Contents[Server]) -> Server | CloudError:
        if machine is None:
            return contents.by_name.get(node.name) or InstanceNotFound(f"server named {node.name}")
        if machine.number in contents.odd:
            return unavailable("GET /servers", contents.odd[machine.number].problem)
        return contents.by_id.get(machine.number) or InstanceNotFound(f"server {machine.number}")

    def _describe(self, server: Server, node: NodeView) -> Instance:
        self._project.confirm(self._servers.item_age(server.id))
        try:
            return describe(server, self._options(), node.annotations)
        except ValueError as error:
            raise unavailable(f"GET /servers/{server.id}", f"an address makes no sense: {error}") from None


def _robot_unknown(machine: MachineId) -> RobotUnknown:
    return RobotUnknown(
        f"Robot server {machine.number} can't be looked up: Robot is not enabled, or lacks credentials"
    )
