"""A cloud-controller-manager for Hetzner Cloud, from scratch."""

import sys
from collections.abc import Mapping

from ccm.cloud import ConfigurationError
from ccm.manager.command import main
from hcloud import Client

from api import call

NAME = "ccm-from-scratch"


class HetznerCloud:
    name = NAME
    has_cluster_id = True
    instances = None
    load_balancers = None
    routes = None

    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self) -> None:
        await call(self.client.locations.get_all)

    async def close(self) -> None:
        pass

    def healthy(self) -> str | None:
        return None


def open_cloud(environment: Mapping[str, str], **_: object) -> HetznerCloud:
    variables = ["HCLOUD_TOKEN", "HCLOUD_ENDPOINT"]
    if missing := [f"{name}: is required" for name in variables if not environment.get(name)]:
        raise ConfigurationError(missing)
    token, endpoint = (environment[name] for name in variables)
    return HetznerCloud(Client(token=token, api_endpoint=endpoint, application_name="my-ccm"))


if __name__ == "__main__":
    sys.exit(main(clouds={NAME: open_cloud}))
