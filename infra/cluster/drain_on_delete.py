"""How a worker departs: its Node is drained before anything else of it is touched.

This is declared after all that is on a worker, so it goes first: when the drain fails, the worker is in the
state as it was, and who keeps it after all has nothing to make anew.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.dynamic import CreateResult

from ..lib.cloud_api import Cloud, everything, fetcher, server_runs
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import DrainError, InfraError
from ..lib.ssh import Host, connect_first
from .drain import Traffic, empty, senders_to
from .peers import control_hosts

KEY = "ccm-from-scratch:drainSeconds"
_CONNECT_SECONDS = 30.0


class DrainingProvider(CloudProvider):
    """A provider that drains Nodes. The stack says how long: the program knows a server that goes no more."""

    told = (*CloudProvider.told, KEY)


class DepartureProvider(DrainingProvider):
    """Does nothing until it is deleted."""

    # as with a Membership: another control server has another cluster
    replaced_by = ("member_id", "node")
    unheeded = ("private_key", "host_key", "address")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes how to reach the cluster."""
        return CreateResult(f"{props['node']}/{props['member_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Drains the Node, unless nothing runs there: its server or every control server is gone or off.

        The only control server may go meanwhile, when it is replaced in the same run.

        Raises:
            DrainError: Pods are left, and with them the server.
            InfraError: A control server runs, and the cluster could not be asked.
            CloudError: The cloud could not be asked.
            ConfigurationError: There is no token.
        """
        seconds = drain_seconds(self._configuration, _props)
        if not seconds:
            return
        cloud = self.cloud()
        if not (hosts := _ways_to_drain(cloud, _props)):
            print(f"the node {_props['node']} is not drained: its server or the control server does not run")
            return
        traffic = traffic_to(_props["member_id"], cloud)
        try:
            asyncio.run(_empty(hosts, _props["node"], seconds, traffic))
        except InfraError as error:
            if not _went_meanwhile(cloud, _props):
                if isinstance(error, DrainError):
                    raise
                raise InfraError(
                    f"the node {_props['node']} could not be drained, so its server stays: {error}\n"
                    "Repeat the command when that is mended, or let it go with what runs on it: "
                    f"pulumi config set {KEY} 0"
                ) from error
            print(
                f"the node {_props['node']} is not drained: its server or the control server went meanwhile"
            )


class Departure(ProviderResource, provider=DepartureProvider):
    """A worker that is to be drained before it goes, and before all that is on it."""


def drain_seconds(configuration: Mapping[str, Any], props: Mapping[str, Any]) -> int:
    """How long to drain: as the stack says now; else, in another program, as the state says.

    Args:
        configuration: Of the stack, by full key.
        props: Of a Departure.
    """
    said = str(configuration.get(KEY))
    # a destroy does not read the settings, so nobody has looked at this one
    return int(said if re.fullmatch(r"[0-9]{1,4}", said, re.ASCII) else props["drain_seconds"])


def traffic_to(server_id: str, cloud: Cloud) -> Traffic:
    """How to see whether load balancers send anything to a server."""
    return Traffic(lambda: senders_to(int(server_id), everything(fetcher(cloud), "load_balancers", "")))


def _ways_to_drain(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """How control servers are reached, where both the worker and one of them run."""
    return control_hosts(cloud, props) if server_runs(cloud, props["member_id"]) else []


def _went_meanwhile(cloud: Cloud, props: Mapping[str, Any]) -> bool:
    try:
        return not _ways_to_drain(cloud, props)
    except InfraError:
        # nobody can say; what is told is why the drain failed
        return False


async def _empty(hosts: Sequence[Host], node: str, seconds: int, traffic: Traffic) -> None:
    async with connect_first(hosts, timeout=_CONNECT_SECONDS) as shell:
        await empty(shell, node, seconds, traffic, print)
