"""Instances: the servers behind the Nodes."""

from collections.abc import Iterable, Mapping, Sequence

from ccm.cloud import (
    EXTERNAL_IP,
    HOSTNAME,
    INTERNAL_IP,
    Address,
    CloudError,
    Instance,
    InstanceNotFound,
    NodeView,
    NotOurs,
)
from hcloud import Client
from hcloud.networks import BoundNetwork
from hcloud.servers import BoundServer

from api import call

SCHEME = "ccm-from-scratch://"


def find_server(node: NodeView, servers: Iterable[BoundServer]) -> BoundServer:
    """The server of a Node: by its provider ID or, until it has one, by its name."""
    if node.provider_id and not node.provider_id.startswith(SCHEME):
        raise NotOurs(node.provider_id)
    for server in servers:
        if node.provider_id == provider_id_of(server):
            return server
        if not node.provider_id and node.name == server.name:
            return server
    raise InstanceNotFound(node.provider_id or node.name)


def provider_id_of(server: BoundServer) -> str:
    return f"{SCHEME}{server.id}"


def private_ip_of(server: BoundServer, network: BoundNetwork) -> str:
    """The server's address in the network; empty if it is not attached."""
    found = [each.ip for each in server.private_net if each.network.id == network.id]
    return found[0] if found else ""


def to_instance(server: BoundServer, network: BoundNetwork) -> Instance:
    public = server.public_net.ipv4
    candidates = (
        Address(HOSTNAME, server.name),
        Address(EXTERNAL_IP, public.ip if public else ""),
        Address(INTERNAL_IP, private_ip_of(server, network)),
    )
    return Instance(
        provider_id=provider_id_of(server),
        name=server.name,
        type=server.server_type.name,
        zone=server.location.name,
        region=server.location.network_zone,
        addresses=tuple(each for each in candidates if each.address),
        shut_down=server.status == BoundServer.STATUS_OFF,
    )


class Instances:
    def __init__(self, client: Client, network: BoundNetwork) -> None:
        self.client = client
        self.network = network

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith(SCHEME)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        servers = await call(self.client.servers.get_all)
        return to_instance(find_server(node, servers), self.network)

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        servers = await call(self.client.servers.get_all)
        answers: dict[str, Instance | CloudError] = {}
        for node in nodes:
            try:
                answers[node.name] = to_instance(find_server(node, servers), self.network)
            except CloudError as error:
                answers[node.name] = error
        return answers
