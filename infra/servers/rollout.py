"""Whose turn it is in a change that rolls server by server: new servers first, then those that exist.

A server's change waits for earlier ones to be ready again: the engine is told of it only once they are, and
never of one that comes after a failure. So ``preview`` shows the order, and the next ``up`` goes on. The
state knows nothing of it: a dependency there would have ``destroy`` delete the servers one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import pulumi

from ..config.server_spec import Kind, ServerSpec, of_kind
from ..config.settings import Settings


def turns_of(settings: Settings, existing: Collection[str]) -> dict[str, list[str]]:
    """Whom each server that exists before the run waits for, by role. Pure."""
    if settings.kubeconfig_path:
        # in a cluster that is there already nobody sees whether a server is back
        return {}
    controls = [control.role for control in of_kind(settings.servers, Kind.CONTROL)]
    # as k3s is installed on them: one that is new may come in between
    waits = {member: [before] for before, member in itertools.pairwise(controls) if member in existing}
    for members, most in _pools(settings.servers):
        waits |= turns(members, existing, most, controls)
    return waits


def turns(
    members: Sequence[str], existing: Collection[str], most: int, controls: Sequence[str]
) -> dict[str, list[str]]:
    """Whom each existing server of a pool waits for; new ones wait for nobody and have no entry. Pure.

    The first ones wait for the control servers, and for those that are not there: they are new, or were to be
    made anew by a run that failed, and then the pool can spare no other one.

    Args:
        members: Roles of the pool's servers.
        existing: Roles of servers that are there before the run.
        most: So many servers of the pool may be away at the same time.
        controls: Roles of the control servers.
    """
    there = [member for member in members if member in existing]
    first = [*controls, *(member for member in members if member not in existing)]
    return {member: [there[index - most]] if index >= most else first for index, member in enumerate(there)}


def leaves_before(servers: Sequence[ServerSpec]) -> dict[str, str]:
    """Whom each worker has to be gone before, if all of its pool leave: the last ones go first. Pure."""
    return {
        member: members[index - most]
        for members, most in _pools(servers)
        for index, member in enumerate(members)
        if index >= most
    }


def _pools(servers: Sequence[ServerSpec]) -> list[tuple[list[str], int]]:
    """Roles of the workers, pool by pool, and how many of the pool may be away at the same time."""
    pools: dict[str, list[ServerSpec]] = {}
    for worker in of_kind(servers, Kind.WORKER):
        pools.setdefault(worker.pool, []).append(worker)
    return [([one.role for one in members], members[0].max_unavailable) for members in pools.values()]


class Turns:
    """The turns of all servers, and what tells that each of them is over."""

    def __init__(self, waits: Mapping[str, Sequence[str]]) -> None:
        """Takes whom to wait for.

        Args:
            waits: By role; who has no entry waits for nobody.
        """
        self._waits = waits
        self._over: dict[str, list[pulumi.Resource]] = {}

    def over_with(self, role: str, resource: pulumi.Resource) -> None:
        """Names a resource that is there once a server's turn is over."""
        self._over.setdefault(role, []).append(resource)

    def existed(self, role: str) -> bool:
        """Whether a server takes turns, because it was there before the run."""
        return role in self._waits

    def options(self, role: str) -> pulumi.ResourceOptions:
        """With these the engine is told of a server when it is its turn."""
        if role not in self._waits:
            return pulumi.ResourceOptions()
        return pulumi.ResourceOptions(depends_on=pulumi.Output.from_input(self._nothing_after(role)))

    async def _nothing_after(self, role: str) -> list[pulumi.Resource]:
        # Begins when the program has declared everything: a server is declared before what tells that the
        # turn of the one before it is over, for that is in the cluster on the servers. The engine gives a
        # resource its URN when it is done with it, in a preview, too.
        for resource in [resource for other in self._waits[role] for resource in self._over[other]]:
            await resource.urn.future()
        return []
