"""Removes a control server from etcd before its server is deleted.

A run may end while a control server joins. Then it is already an etcd member and counts for quorum, but no
resource that is created after k3s is in the state. So the program declares this one before k3s.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import pulumi

from ..lib.cloud_api import Cloud, cloud_of
from ..lib.dynamic import ProviderResource
from ..servers.server import host_of
from .drain_on_delete import DrainingProvider, drain_seconds
from .etcd_leave import LeavingServer, leave
from .peers import Peer, peers_of, through_current_nat


class EtcdMemberGuardProvider(DrainingProvider):
    """Does nothing until it is deleted."""

    id_format = "{server_id}"
    replaced_by = ("server_id",)
    ignored_inputs = ("private_key", "drain_seconds")

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes it from the cluster. Does nothing if it is not a member."""
        leave_before_delete(self._configuration, _props)


class EtcdMemberGuard(ProviderResource, provider=EtcdMemberGuardProvider, type_name="Vote"):
    """The etcd member of a control server that joins others; its K3sServer has the same ``member``."""

    server_id: pulumi.Output[str]


def leave_before_delete(configuration: Mapping[str, Any], props: Mapping[str, Any]) -> None:
    """Removes a control server from the cluster before its server is deleted; raises as ``leave``."""
    cloud = cloud_of(configuration, os.environ)
    leaving, peers = leaving_server(cloud, props, drain_seconds(configuration, props))
    if peers:
        asyncio.run(leave(cloud, leaving, peers, print))


def leaving_server(cloud: Cloud, props: Mapping[str, Any], seconds: int) -> tuple[LeavingServer, list[Peer]]:
    """The control server in a state, and the others of its cluster; ``seconds``: timeout of its drain."""
    member = props["member"]
    host = through_current_nat(cloud, host_of(props), member["labels"])
    peers = peers_of(cloud, props["server_id"], props["private_ip"], member["labels"], jump=host.jump)
    return LeavingServer(props["server_id"], member["node"], host, seconds), peers
