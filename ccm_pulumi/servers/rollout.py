"""The order in which a change rolls out to servers: new servers first, then existing ones in batches.

A server's change waits until the servers before it are ready again. The program registers the server with the
engine only then, and never after a failure. So ``preview`` shows the order, and the next ``up`` continues.
The state does not contain these dependencies: with them ``destroy`` would delete the servers one by one.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

import pulumi

from ..config.server_spec import Kind, ServerSpec, of_kind
from ..config.settings import Settings


def rollout_order(settings: Settings, existing: Collection[str]) -> dict[str, list[str]]:
    """The roles that each existing server waits for, by its role."""
    if settings.kubeconfig_path:
        # the program can't see whether a server of an existing cluster is ready again
        return {}
    controls = [control.role for control in of_kind(settings.servers, Kind.CONTROL)]
    # in the order in which k3s is installed; a new one may be between them
    waits = {member: [before] for before, member in itertools.pairwise(controls) if member in existing}
    for members, max_unavailable in _pools(settings.servers):
        waits |= pool_rollout_order(members, existing, max_unavailable, controls)
    return waits


def pool_rollout_order(
    members: Sequence[str], existing: Collection[str], max_unavailable: int, controls: Sequence[str]
) -> dict[str, list[str]]:
    """The roles that each existing server of a pool waits for. New servers wait for none and have no entry.

    The first servers wait for the control servers and for the pool's missing servers. A missing server is
    new, or a failed run deleted it and did not create it again: then no other one may become unavailable.
    """
    rolled = [member for member in members if member in existing]
    first = [*controls, *(member for member in members if member not in existing)]
    return {
        member: [rolled[index - max_unavailable]] if index >= max_unavailable else first
        for index, member in enumerate(rolled)
    }


def deletion_order(servers: Sequence[ServerSpec]) -> dict[str, str]:
    """The worker after which each worker of a pool is deleted: the pool's last workers go first."""
    return {
        member: members[index - max_unavailable]
        for members, max_unavailable in _pools(servers)
        for index, member in enumerate(members)
        if index >= max_unavailable
    }


def _pools(servers: Sequence[ServerSpec]) -> list[tuple[list[str], int]]:
    """For each pool, the roles of its workers and its ``max_unavailable``."""
    pools: dict[str, list[ServerSpec]] = {}
    for worker in of_kind(servers, Kind.WORKER):
        pools.setdefault(worker.pool, []).append(worker)
    return [([worker.role for worker in pool], pool[0].max_unavailable) for pool in pools.values()]


class Rollout:
    """The roles that a server waits for (``waits``), and the resources that show that a server is done."""

    def __init__(self, waits: Mapping[str, Sequence[str]]) -> None:
        self._waits = waits
        self._done_when: dict[str, list[pulumi.Resource]] = {}

    def done_when(self, role: str, resource: pulumi.Resource) -> None:
        """Adds a resource that exists once the change of a server is complete."""
        self._done_when.setdefault(role, []).append(resource)

    def existed(self, role: str) -> bool:
        """Whether a server is part of the rollout, because it existed before the run."""
        return role in self._waits

    def options(self, role: str) -> pulumi.ResourceOptions:
        """Options that register a server with the engine after the servers that it waits for."""
        if role not in self._waits:
            return pulumi.ResourceOptions()
        return pulumi.ResourceOptions(depends_on=pulumi.Output.from_input(self._wait_for(role)))

    async def _wait_for(self, role: str) -> list[pulumi.Resource]:
        # This starts when the program has declared everything: the program declares a server before the
        # resources that show that the previous one is done, because these are in the cluster on the servers.
        # The engine returns a resource's URN when it has processed the resource, in a preview, too.
        for resource in [resource for other in self._waits[role] for resource in self._done_when[other]]:
            await resource.urn.future()
        return []
