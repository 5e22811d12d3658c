"""A control server's vote, noted before it joins: whoever takes the server away lets it leave first.

A run may end while a control server joins: then it is one of the others' majority, and nothing that is made
afterwards would know. So this is declared before its k3s is, and remembers it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

from ..lib.cloud_api import cloud_of
from ..lib.dynamic import ProviderResource
from ..servers.server import host_of
from .drain_on_delete import DrainingProvider, drain_seconds
from .etcd_leave import Leaver, leave
from .peers import peers_of


class VoteProvider(DrainingProvider):
    """Does nothing until it is deleted."""

    replaced_by = ("server_id",)
    unheeded = ("private_key", "host_key", "address", "drain_seconds")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes how to reach the control server."""
        return CreateResult(props["server_id"], dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Takes it out of the cluster; nothing where it has left, or has never joined.

        Raises:
            QuorumError: The others need it, or can't be asked; nothing was changed.
            DrainError: Pods are left on it, and with them it stays.
            CloudError: The cloud could not be asked.
        """
        give_up(self._configuration, _props)


class Vote(ProviderResource, provider=VoteProvider):
    """The vote of a control server that joins others, which a K3sServer is told of as ``member``."""

    server_id: pulumi.Output[str]


def give_up(configuration: Mapping[str, Any], props: Mapping[str, Any]) -> None:
    """Lets a control server leave the others, before its server is deleted.

    Args:
        configuration: Of the stack, by full key.
        props: Of a Vote or a K3sServer that is one of several.

    Raises:
        QuorumError: The others need it, or can't be asked; nothing was changed.
        DrainError: Pods are left on it, and with them it stays.
        CloudError: The cloud could not be asked.
    """
    member = props["member"]
    cloud = cloud_of(configuration, os.environ)
    host = host_of(props)
    peers = peers_of(cloud, props["server_id"], props["private_ip"], member["labels"], jump=host.jump)
    seconds = drain_seconds(configuration, props)
    if peers:
        asyncio.run(leave(cloud, Leaver(props["server_id"], member["node"], host, seconds), peers, print))
