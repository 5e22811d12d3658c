"""Instances: the servers behind the Nodes."""

from collections.abc import Mapping, Sequence

from ccm.cloud import (
    EXTERNAL_IP,
    HOSTNAME,
    INTERNAL_IP,
    Address,
    CloudError,
    Instance,
    InstanceNotFound,
    NodeView,
)
from hcloud import Client
from hcloud.networks import BoundNetwork
from hcloud.servers import BoundServer

from api import call

SCHEME = "ccm-from-scratch://"


class Instances:
    def __init__(self, client: Client, network: BoundNetwork) -> None:
        self.client = client
        self.network = network

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith(SCHEME)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        server = await call(self.client.servers.get_by_name, node.name)
        if server is None:
            raise InstanceNotFound(node.name)
        addresses = [
            Address(HOSTNAME, server.name),
            Address(EXTERNAL_IP, server.public_net.ipv4.ip),
        ]
        for attachment in server.private_net:
            if attachment.network.id == self.network.id:
                addresses += [Address(INTERNAL_IP, attachment.ip)]
        return Instance(
            provider_id=f"{SCHEME}{server.id}",
            name=server.name,
            type=server.server_type.name,
            zone=server.location.name,
            region=server.location.network_zone,
            addresses=tuple(addresses),
            shut_down=server.status == BoundServer.STATUS_OFF,
        )

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        answers: dict[str, Instance | CloudError] = {}
        for node in nodes:
            try:
                answers[node.name] = await self.get(node, accepted_age=accepted_age)
            except CloudError as error:
                answers[node.name] = error
        return answers
