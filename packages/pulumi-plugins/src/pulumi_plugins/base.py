"""The interface between Pulumi's protocol and our providers."""

import ipaddress
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from pulumi_plugins.errors import ProviderError
from pulumi_plugins.values import Properties


@dataclass(frozen=True)
class Known:
    """A resource in the state."""

    urn: str  # of the resource
    id: str  # the provider's id
    inputs: Properties  # checked inputs; empty during an import
    outputs: Properties  # outputs; empty during an import


@dataclass(frozen=True)
class Resource:
    """A resource as it is now."""

    id: str  # the provider's id
    outputs: Properties
    inputs: Properties = field(default_factory=dict)  # inputs as they are now; unused after a creation


@dataclass(frozen=True)
class Diff:
    """A provider's result of comparing a resource with new inputs."""

    keys: Sequence[str]  # paths that change
    replaces: Sequence[str] = ()  # paths that can't be changed in place
    delete_before_replace: bool = False  # old and new can't exist at once


@dataclass(frozen=True)
class Surroundings:
    """Where a provider runs."""

    environment: Mapping[str, str]  # environment variables
    # Shows a text next to a resource until the next one: URN, text.
    status: Callable[[str, str], None] = lambda _urn, _text: None
    cancelled: Callable[[], bool] = lambda: False  # whether Ctrl-C was pressed


class Provider(Protocol):
    """Manages resources. Called from several threads at once; every failure is a ProviderError."""

    accept_secrets: ClassVar[bool] = False

    def __init__(self, config: Properties, around: Surroundings) -> None: ...

    @staticmethod
    def check_config(inputs: Properties, environment: Mapping[str, str]) -> None:
        """Refuse unsupported settings."""

    @staticmethod
    def moved(old: Properties, new: Properties) -> list[str]:  # noqa: ARG004
        """Settings that changed so that they mean another system."""
        return []

    @abstractmethod
    def check(self, urn: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Validate inputs and fill in defaults; an automatic name is the last run's, or made of a seed."""

    @abstractmethod
    def diff(self, old: Known, news: Properties) -> Diff:
        """Compare a resource with new, checked inputs."""

    @abstractmethod
    def create(self, urn: str, inputs: Properties, timeout: float | None) -> Resource:
        """Create a resource and wait until it is usable."""

    @abstractmethod
    def update(self, old: Known, news: Properties, timeout: float | None) -> Properties:
        """Change a resource in place and return its outputs."""

    @abstractmethod
    def preview_update(self, old: Known, news: Properties) -> Properties:
        """Outputs after an update as far as they are known."""

    @abstractmethod
    def delete(self, old: Known, timeout: float | None) -> None:
        """Delete a resource and wait until it is gone; a missing one is fine."""

    @abstractmethod
    def read(self, old: Known) -> Resource:
        """Read a resource; raises ResourceNotFoundError if it is gone."""


_SANDBOX = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("127.0.0.0/8", "::1/128"),
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"),  # RFC 5737, RFC 3849
        "198.18.0.0/21",  # for benchmarks (RFC 2544); machines have it if the others are in use
    )
)


def refuse_others(plugin: str, address: str) -> None:
    """Make sure that a plugin of ours only works with the sandbox; raises ProviderError for other URLs.

    The sandbox's API and its hollow cluster are at loopback addresses. Its machines, and so their cluster,
    have addresses for documentation, which nothing on the Internet has.
    """
    try:
        host = urlsplit(address).hostname or ""
        ours = host == "localhost" or any(ipaddress.ip_address(host) in network for network in _SANDBOX)
    except ValueError:
        ours = False
    if not ours:
        raise ProviderError(
            f"the sandbox's plugin '{plugin}' works only with the sandbox, so it accepts only loopback "
            f"and documentation addresses. The address {address} isn't allowed. Install the official "
            f"plugin: pulumi plugin install resource {plugin}"
        )


def was_sent(error: BaseException | None) -> bool:
    """Whether the server may have received a request without an answer: not if the connection failed."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError, SSLError  # noqa: PLC0415

    return not isinstance(error, ConnectTimeoutError | NewConnectionError | ProxyError | SSLError)


def type_of(urn: str) -> str:
    """The resource's own type in a URN."""
    return urn.split("::")[2].rsplit("$", maxsplit=1)[-1]


def name_of(urn: str) -> str:
    """The resource's name in a URN."""
    return urn.split("::", 3)[3]
