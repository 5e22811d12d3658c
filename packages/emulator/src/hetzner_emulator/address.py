"""Where the emulated API answers, and how clients get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import quote

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY")
"""Variables that name one, also in lower case; gRPC alone reads the last one."""


@dataclass(frozen=True)
class Address:
    """Where the API answers on this machine, and with which token.

    Attributes:
        port: On 127.0.0.1.
        token: Of a project; it makes admin calls, too.
    """

    port: int
    token: str

    @property
    def endpoint(self) -> str:
        """What goes into ``HCLOUD_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables by which Hetzner's own clients find the API, and nothing but it."""
        return client_variables(self.endpoint, self.token)

    @property
    def registry(self) -> str:
        """What stands before the name of an image that is pushed into the sandbox's registry."""
        return f"127.0.0.1:{self.port}"

    @property
    def console(self) -> str:
        """The address of the cloud's console for a person; no server and no log sees what is behind the #."""
        return f"http://127.0.0.1:{self.port}/_sandbox/console#token={quote(self.token, safe='')}"


def client_variables(endpoint: str, token: str) -> dict[str, str]:
    """The environment variables by which Hetzner's own clients find an API, and send a token nowhere else.

    Storage Boxes have another address at Hetzner: ``HETZNER_ENDPOINT`` in the Ansible collection and in
    Terraform's provider, ``HCLOUD_HETZNER_ENDPOINT`` in the hcloud CLI (its option ``--hetzner-endpoint``).

    Args:
        endpoint: Address of the API, ``/v1`` included.
        token: Of a project.
    """
    of_storage_boxes = dict.fromkeys(("HETZNER_ENDPOINT", "HCLOUD_HETZNER_ENDPOINT"), endpoint)
    return {"HCLOUD_ENDPOINT": endpoint, "HCLOUD_TOKEN": token, **of_storage_boxes}


def past_proxies(environment: Mapping[str, str], public_range: Iterable[IPv4Address] = ()) -> dict[str, str]:
    """Where a proxy is set, the variables with which clients reach this machine without it.

    Every address by itself: not every client understands ranges there.

    Args:
        environment: May name proxies, and what to reach without them.
        public_range: Addresses of servers that are on this machine, too.
    """
    if not any(environment.get(name) or environment.get(name.lower()) for name in PROXIES):
        return {}
    given = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [*given.split(","), "localhost", "127.0.0.1", *map(str, public_range)]
    value = ",".join(dict.fromkeys(host.strip() for host in hosts if host.strip()))
    return {"NO_PROXY": value, "no_proxy": value}
