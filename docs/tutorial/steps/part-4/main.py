"""A cloud-controller-manager for Hetzner Cloud, from scratch."""

import sys
from collections.abc import Mapping

from ccm.cloud import ConfigurationError
from ccm.manager.command import main
from hcloud import Client
from hcloud.networks import BoundNetwork

from api import call
from instances import Instances
from load_balancers import LoadBalancers

NAME = "ccm-from-scratch"


class HetznerCloud:
    name = NAME
    has_cluster_id = True
    instances: Instances | None = None
    load_balancers: LoadBalancers | None = None
    routes = None

    def __init__(self, client: Client, network: str) -> None:
        self.client = client
        self.network = network

    async def start(self) -> None:
        network = await call(find_network, self.client, self.network)
        self.instances = Instances(self.client, network)
        self.load_balancers = LoadBalancers(self.client, network)

    async def close(self) -> None:
        pass

    def healthy(self) -> str | None:
        return None


def find_network(client: Client, name_or_id: str) -> BoundNetwork:
    for network in client.networks.get_all():
        if name_or_id in {network.name, str(network.id)}:
            return network
    raise ConfigurationError([f"HCLOUD_NETWORK: there is no network {name_or_id}"])


def open_cloud(environment: Mapping[str, str], **_: object) -> HetznerCloud:
    variables = ["HCLOUD_TOKEN", "HCLOUD_ENDPOINT", "HCLOUD_NETWORK"]
    if missing := [f"{name}: is required" for name in variables if not environment.get(name)]:
        raise ConfigurationError(missing)
    token, endpoint, network = (environment[name] for name in variables)
    client = Client(token=token, api_endpoint=endpoint, application_name="my-ccm")
    return HetznerCloud(client, network)


if __name__ == "__main__":
    sys.exit(main(clouds={NAME: open_cloud}))
