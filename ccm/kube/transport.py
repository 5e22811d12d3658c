"""The connection to a real API server: address, credentials, TLS, connection pool.

Only this module uses the ``kubernetes`` package. It doesn't import the package's models, API classes, watch,
informer and leader election: the models fail on malformed objects and need thirteen times the memory, and the
other parts are unreliable. docs/design/dependencies.md has the figures.
"""

# ruff: noqa: E402 - lazy_package_init must come before the imports of the package.

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import structlog

from ccm.errors import ConfigurationError
from ccm.kube.backoff import TokenBucket
from ccm.kube.http import HttpTransport, Observer, Request
from ccm.startup import lazy_package_init

lazy_package_init("kubernetes", "kubernetes.aio", "kubernetes.aio.config", "kubernetes.aio.utils")

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

_TOKEN_AGE = 60.0
_TOKEN = "BearerToken"  # noqa: S105 - the name of the scheme
# The names of these options on Linux. Other systems keep their defaults.
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class _Source:
    """A source of credentials."""

    load: Callable[[Any], Awaitable[None]]  # loads them into a configuration; raises ConfigurationError
    max_age: float | None = None  # seconds until the next load; None = only after the server rejected them
    clean: Callable[[], None] = lambda: None  # removes the files of ``load`` after a client was created


class KubernetesTransport(HttpTransport):
    """A ``Transport`` to the API server of a kubeconfig or of the Pod's service account; see ``connect``."""

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
        """Read the configuration without sending a request. Raises ConfigurationError.

        ``master`` is the server's URL and takes precedence over the kubeconfig. Without both, the transport
        uses the Pod's service account. ``grace`` is the time in seconds after the end of a watch's timeout
        until the transport closes a silent watch.
        """
        if kubeconfig:
            source = _kubeconfig(kubeconfig)
        elif master:
            source = _Source(_nothing)
        else:
            source = _Source(_from_service_account(service_account, environment), _TOKEN_AGE)
        connection = _Connection(source, master, user_agent)
        await connection.open()
        return cls(connection, host=connection.host, limiter=limiter, observe=observe, grace=grace)


async def _nothing(_: Any) -> None:
    """Load no credentials, because only the address is known."""


def _kubeconfig(path: str) -> _Source:
    if not any(Path(folder).exists() for folder in path.split(os.pathsep)):
        raise ConfigurationError([f"kubeconfig {path}: there is no such file"])
    # A Pod has no kubeconfig, and this import loads YAML, credential plugins and the package's client.
    import kubernetes.aio.config.kube_config as package  # noqa: PLC0415

    async def load(configuration: Any) -> None:
        try:
            await cast("Any", package).load_kube_config(
                path, client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # the package doesn't catch the errors of its parsers
            raise ConfigurationError([f"kubeconfig {path}: {error}"]) from error

    def clean() -> None:
        """Remove the temporary files with the keys of a kubeconfig.

        TLS needs files, so the package writes the keys to files and removes them when the process ends. A
        killed process wouldn't remove them. Only the creation of a client needs the files.
        """
        cast("Any", package)._cleanup_temp_files()  # noqa: SLF001  the package has no public function

    return _Source(load, clean=clean)


def _from_service_account(
    directory: Path, environment: Mapping[str, str]
) -> Callable[[Any], Awaitable[None]]:
    token, authority = directory / "token", directory / Path(SERVICE_CERT_FILENAME).name

    async def load(configuration: Any) -> None:
        try:
            loader: Any = InClusterConfigLoader(str(token), str(authority), False, environment)
            loader.load_and_set(configuration)
        except (ConfigException, OSError) as error:
            problem = f"--kubeconfig is not set, and the CCM isn't in a Pod with a service account: {error}"
            raise ConfigurationError([problem]) from error

    return load


class _Connection:
    """A client that reloads its credentials: every minute in a Pod, and after the server rejected them.

    A client reads the TLS files only when it is created. If these files change, new requests use a new
    client. Running requests, for example watches, continue with the old client.
    """

    def __init__(self, source: _Source, master: str, user_agent: str) -> None:
        self._source = source
        self._master = master
        # No gzip, because in a cluster's own network compression costs more time than it saves.
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._configuration: Any = Configuration()
        # Like clients in Go: certificates of older clusters lack extensions that Python 3.13 requires.
        self._configuration.disable_strict_ssl_verification = True
        self.version = 0  # number of changes of the token or the TLS files
        self._loaded = 0.0
        self._renewing = asyncio.Lock()
        self._token: str | None = None
        self._files: tuple[object, ...] = ()
        self._client: Any = None
        self._connector: aiohttp.TCPConnector | None = None
        self._former: list[tuple[Any, aiohttp.TCPConnector | None]] = []

    async def open(self) -> None:
        try:
            await self._reload()
        except OSError as error:  # includes ssl.SSLError
            raise ConfigurationError([f"certificates of the kubeconfig: {error}"]) from error
        finally:
            self._source.clean()

    @property
    def host(self) -> str:
        """Name and port of the server."""
        return urlsplit(str(self._configuration.host)).netloc

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        age = self._source.max_age
        if age is not None and time.monotonic() - self._loaded > age:
            await self.renew(self.version)
        headers = {**self._headers, "Content-Type": request.content_type, **await self._credentials()}
        # No await may follow, because the client uses the pool in the shared configuration.
        if self._connector is None:
            # it detects a lost peer within 30 seconds
            self._connector = aiohttp.TCPConnector(
                ssl=self._client.ssl_context, limit=100, socket_factory=_keepalive_socket
            )
            self._configuration.client_session_kwargs = {"connector": self._connector}
        url = self._configuration.host + request.path
        if request.query:
            url += "?" + urlencode(request.query, quote_via=quote)
        answer = await self._client.request(
            request.verb, url, headers=headers, body=request.body, _request_timeout=request.timeout
        )
        return answer.response

    async def _credentials(self) -> dict[str, str]:
        """The header with our credentials, which a credential plugin of a kubeconfig may renew now."""
        token = (await self._configuration.auth_settings()).get(_TOKEN)
        return {token["key"]: token["value"]} if token and token["value"] else {}

    async def renew(self, refused: int) -> bool:
        async with self._renewing:
            if self.version == refused:
                try:
                    await self._reload()
                except (ConfigurationError, OSError) as error:
                    log.warning("credentials_not_renewed", error=str(error))
                finally:
                    self._source.clean()
            return self.version != refused

    async def close(self) -> None:
        for client, connector in (*self._former, (self._client, self._connector)):
            await client.close()
            # The session doesn't close a connector that it didn't create.
            if connector is not None:
                await connector.close()

    async def _reload(self) -> None:
        self._loaded = time.monotonic()
        await self._source.load(self._configuration)
        token = self._configuration.api_key.get(_TOKEN)
        if token:
            # A newline at the end of the file would make the header invalid.
            token = self._configuration.api_key[_TOKEN] = token.strip()
        if self._master:
            self._configuration.host = self._master.rstrip("/")
        self.version += token != self._token
        self._token = token
        self._change_client()

    def _change_client(self) -> None:
        """Create a new client if the TLS files have changed. Raises OSError if the files can't be decoded."""
        files = _files_of(self._configuration)
        if files == self._files:
            return
        client = cast("Any", RESTClientObject)(self._configuration)
        if self._client is not None:
            self._former.append((self._client, self._connector))
        self._client, self._connector, self._files = client, None, files
        self.version += 1


def _files_of(configuration: Any) -> tuple[object, ...]:
    """The current TLS settings, with digests in place of the content of files."""
    paths = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    digests = (hashlib.sha256(Path(path).read_bytes()).digest() if path else b"" for path in paths)
    return (configuration.verify_ssl, configuration.ca_cert_data, *digests)


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(*address[:3])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock
