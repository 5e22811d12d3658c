"""The address of the emulated API, and the environment variables for clients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import quote

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY")
"""Environment variables that configure a proxy. Clients also read the lowercase names, such as
``http_proxy``. Only gRPC clients read ``GRPC_PROXY``."""


@dataclass(frozen=True)
class Address:
    """The address of the API on this machine."""

    port: int  # on 127.0.0.1
    token: str  # of a project; valid for admin calls, too

    @property
    def endpoint(self) -> str:
        """The value of ``HCLOUD_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of Hetzner's own clients."""
        return client_variables(self.endpoint, self.token)

    @property
    def registry(self) -> str:
        """The prefix of images in the sandbox's registry."""
        return f"127.0.0.1:{self.port}"

    @property
    def console(self) -> str:
        """The address of the console; browsers don't send the fragment with the token."""
        return f"http://127.0.0.1:{self.port}/_sandbox/console#token={quote(self.token, safe='')}"


def client_variables(endpoint: str, token: str) -> dict[str, str]:
    """The environment variables with which Hetzner's own clients send all requests to one endpoint.

    Storage Boxes have another address at Hetzner: ``HETZNER_ENDPOINT`` in the Ansible collection and in
    Terraform's provider, ``HCLOUD_HETZNER_ENDPOINT`` in the hcloud CLI (its option ``--hetzner-endpoint``).
    """
    of_storage_boxes = dict.fromkeys(("HETZNER_ENDPOINT", "HCLOUD_HETZNER_ENDPOINT"), endpoint)
    return {"HCLOUD_ENDPOINT": endpoint, "HCLOUD_TOKEN": token, **of_storage_boxes}


def past_proxies(environment: Mapping[str, str], public_range: Iterable[IPv4Address] = ()) -> dict[str, str]:
    """If the environment has a proxy, the variables with which clients bypass it for this machine.

    The value lists every single address, even of the public range, because some clients don't support ranges.
    """
    if not any(environment.get(name) or environment.get(name.lower()) for name in PROXIES):
        return {}
    given = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [*given.split(","), "localhost", "127.0.0.1", *map(str, public_range)]
    value = ",".join(dict.fromkeys(host.strip() for host in hosts if host.strip()))
    return {"NO_PROXY": value, "no_proxy": value}
