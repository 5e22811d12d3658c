"""Drains a worker's Node before the worker's other resources are deleted.

The program declares this resource after all others of a worker, so Pulumi deletes it first. If the drain
fails, the worker's other resources are unchanged, and a user who decides to keep the worker needs to recreate
nothing.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..lib.cloud_api import Cloud, everything, fetcher, server_runs
from ..lib.dynamic import CloudProvider, ProviderResource
from ..lib.errors import DrainError, InfraError
from ..lib.ssh import Host, connect_first
from .drain import Traffic, empty, senders_to
from .peers import control_hosts

KEY = "ccm-from-scratch:drainSeconds"
_CONNECT_SECONDS = 30.0


class DrainingProvider(CloudProvider):
    """Drains Nodes. Its timeout is in the stack's configuration, because a deleted server has no settings."""

    configuration_keys = (*CloudProvider.configuration_keys, KEY)


class DrainOnDeleteProvider(DrainingProvider):
    """Does nothing until it is deleted."""

    id_format = "{node}/{member_id}"
    # as with a NodeRegistration: another control server is another cluster
    replaced_by = ("member_id", "node")
    ignored_inputs = ("private_key",)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Drains the Node, unless its server or every control server is deleted or off. The only control
        server may be deleted during the drain, if the same run replaces it.
        """
        seconds = drain_seconds(self._configuration, _props)
        if not seconds:
            return
        cloud = self.cloud()
        if not (hosts := _hosts_to_drain(cloud, _props)):
            print(
                f"the node {_props['node']} was not drained, because its server is not running, or "
                "no control server is running"
            )
            return
        traffic = traffic_to(_props["member_id"], cloud)
        try:
            asyncio.run(_empty(hosts, _props["node"], seconds, traffic))
        except InfraError as error:
            if not _is_gone_now(cloud, _props):
                if isinstance(error, DrainError):
                    raise
                raise InfraError(
                    f"the node {_props['node']} could not be drained, so its server was not deleted: "
                    f"{error}\n"
                    "Fix the cause and repeat the command. To delete the server without a drain: "
                    f"pulumi config set {KEY} 0"
                ) from error
            print(
                f"the node {_props['node']} was not drained, because its server is no longer running, or "
                "no control server is running"
            )


class DrainOnDelete(ProviderResource, provider=DrainOnDeleteProvider, type_name="Departure"):
    """A worker that is drained before it and everything on it is deleted."""


def drain_seconds(configuration: Mapping[str, Any], props: Mapping[str, Any]) -> int:
    """Timeout of the drain: of the stack's configuration; in another program, of the state."""
    configured = str(configuration.get(KEY))
    # a destroy does not run the program, so this value has not been checked
    return int(configured if re.fullmatch(r"[0-9]{1,4}", configured, re.ASCII) else props["drain_seconds"])


def traffic_to(server_id: str, cloud: Cloud) -> Traffic:
    """How to check whether load balancers send to a server."""
    return Traffic(lambda: senders_to(int(server_id), everything(fetcher(cloud), "load_balancers", "")))


def _hosts_to_drain(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """The control servers that run; empty if the worker does not run."""
    return control_hosts(cloud, props) if server_runs(cloud, props["member_id"]) else []


def _is_gone_now(cloud: Cloud, props: Mapping[str, Any]) -> bool:
    try:
        return not _hosts_to_drain(cloud, props)
    except InfraError:
        # unknown: the caller reports why the drain failed
        return False


async def _empty(hosts: Sequence[Host], node: str, seconds: int, traffic: Traffic) -> None:
    async with connect_first(hosts, timeout=_CONNECT_SECONDS) as shell:
        await empty(shell, node, seconds, traffic, print)
