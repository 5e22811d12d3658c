"""The connection to a real API server: where it is, who we are, TLS, the connection pool.

All of that is the ``kubernetes`` package's, which is imported nowhere else. Its models, watch, informer and
leader election are not used: the models fail on odd objects and take thirteen times the memory, the rest is
unsound. docs/design/dependencies.md has the figures.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import structlog
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from ccm.errors import ConfigurationError
from ccm.kube.http import HttpTransport, Observer, Request
from ccm.kube.protocol import Page, Transport, WatchEvent
from ccm.kube.ratelimit import TokenBucket

__all__ = ["KubernetesTransport", "Page", "Transport", "WatchEvent"]

_TOKEN_AGE = 60.0
_TOKEN = "BearerToken"  # noqa: S105 - the name of the scheme
# Linux' names of these options (others keep their defaults).
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}

log = structlog.stdlib.get_logger(__name__)
Load = Callable[[Any], Awaitable[None]]


class KubernetesTransport(HttpTransport):
    """A ``Transport`` to the API server that a kubeconfig or our service account names; see ``connect``."""

    @classmethod
    async def connect(
        cls,
        *,
        environment: Mapping[str, str],
        kubeconfig: str = "",
        master: str = "",
        user_agent: str = "cloud-controller-manager",
        service_account: Path = Path(SERVICE_TOKEN_FILENAME).parent,
        limiter: TokenBucket | None = None,
        observe: Observer = lambda _: None,
        grace: float = 15.0,
    ) -> KubernetesTransport:
        """Read the configuration. Nothing is sent yet.

        Args:
            environment: With the API server's address, in a Pod.
            kubeconfig: A file; empty (and no master) for the service account of our Pod.
            master: URL that wins over the configuration's.
            user_agent: Of our requests.
            service_account: Directory of token and CA, in a Pod.
            limiter: At most so many requests a second.
            observe: Learns of each request.
            grace: Seconds that a watch may stay silent after it should have ended.

        Raises:
            ConfigurationError: The configuration can't be read or names nothing to connect to.
        """
        if kubeconfig:
            load, age = _from_kubeconfig(kubeconfig), None
        elif master:
            load, age = _nothing, None
        else:
            load, age = _from_service_account(service_account, environment), _TOKEN_AGE
        connection = _Connection(load, age, master, user_agent)
        await connection.open()
        return cls(connection, host=connection.host, limiter=limiter, observe=observe, grace=grace)


async def _nothing(_: Any) -> None:
    """An address alone, without credentials."""


def _from_kubeconfig(path: str) -> Load:
    async def load(configuration: Any) -> None:
        try:
            await cast("Any", kubernetes_config).load_kube_config(
                path, client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # the package lets through whatever its parsers raise
            raise ConfigurationError([f"kubeconfig {path}: {error}"]) from error

    return load


def _delete_key_files() -> None:
    """Remove what a kubeconfig's keys were read from.

    TLS wants files, so the package writes some and keeps them until the process ends. One that is
    killed would leave the keys behind. They are needed only while a client is made.
    """
    cast("Any", kubernetes_config).kube_config._cleanup_temp_files()  # noqa: SLF001  it has no public name


def _from_service_account(directory: Path, environment: Mapping[str, str]) -> Load:
    token, authority = directory / "token", directory / Path(SERVICE_CERT_FILENAME).name

    async def load(configuration: Any) -> None:
        try:
            loader: Any = InClusterConfigLoader(str(token), str(authority), False, environment)
            loader.load_and_set(configuration)
        except (ConfigException, OSError) as error:
            problem = f"--kubeconfig is not given, and this is no Pod with a service account: {error}"
            raise ConfigurationError([problem]) from error

    return load


class _Connection:
    """The package's client with credentials that are read again: every minute in a Pod, and when refused."""

    def __init__(self, load: Load, max_age: float | None, master: str, user_agent: str) -> None:
        self._load = load
        self._max_age = max_age
        self._master = master
        self._user_agent = user_agent
        self._configuration: Any = Configuration()
        # As clients in Go: older clusters' certificates lack what Python 3.13 began to insist on.
        self._configuration.disable_strict_ssl_verification = True
        self._loaded = 0.0
        self._api: Any = None
        self._connector: aiohttp.TCPConnector | None = None

    async def open(self) -> None:
        try:
            await self._reload()
            self._api = cast("Any", ApiClient)(self._configuration)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError([f"certificates of the kubeconfig: {error}"]) from error
        finally:
            _delete_key_files()
        self._api.user_agent = self._user_agent
        # Without gzip: on a cluster's own network it costs more than it saves.
        self._api.set_default_header("Accept-Encoding", "identity")
        self._api.set_default_header("Accept", "application/json")

    @property
    def host(self) -> str:
        """Name and port of the server."""
        return urlsplit(str(self._configuration.host)).netloc

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        if self._max_age is not None and time.monotonic() - self._loaded > self._max_age:
            await self.renew()
        if self._connector is None:
            self._connector = self._open_pool()
            self._configuration.client_session_kwargs = {"connector": self._connector}
        arguments = await self._api.param_serialize(
            request.verb,
            request.path,
            query_params=list(request.query.items()),
            header_params={"Content-Type": request.content_type},
            auth_settings=[_TOKEN],
        )
        verb, url, headers, _, _ = arguments
        answer = await self._api.call_api(verb, url, headers, request.body, _request_timeout=request.timeout)
        return answer.response

    async def renew(self) -> bool:
        before = self._configuration.api_key.get(_TOKEN)
        try:
            await self._reload()
        except ConfigurationError as error:
            log.warning("credentials_not_renewed", error=str(error))
            return False
        finally:
            _delete_key_files()
        return self._configuration.api_key.get(_TOKEN) != before

    async def close(self) -> None:
        await self._api.close()
        # A connector that we bring along is not the session's to close.
        if self._connector is not None:
            await self._connector.close()

    async def _reload(self) -> None:
        self._loaded = time.monotonic()
        await self._load(self._configuration)
        token = self._configuration.api_key.get(_TOKEN)
        if token:
            # A file that ends with a newline would make an invalid header.
            self._configuration.api_key[_TOKEN] = token.strip()
        if self._master:
            self._configuration.host = self._master.rstrip("/")

    def _open_pool(self) -> aiohttp.TCPConnector:
        """A pool whose connections notice within half a minute that the other side is gone."""
        return aiohttp.TCPConnector(
            ssl=self._api.rest_client.ssl_context, limit=100, socket_factory=_keepalive_socket
        )


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(*address[:3])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock
