"""The health and metrics server with the options from the flags. Reloads certificates and client CAs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from prometheus_client import CollectorRegistry

from ccm.errors import CcmError, ConfigurationError
from ccm.http_server import serving
from ccm.kube.objects import ConfigMap
from ccm.kube.protocol import Transport
from ccm.manager.flags import ParsedFlags
from ccm.manager.serving.configz import configuration
from ccm.manager.serving.health import Health
from ccm.manager.serving.reviews import AccessReviewer, TokenReviewer
from ccm.manager.serving.server import Guard, build_application
from ccm.manager.serving.tls import TLS_VERSIONS, ServerTls

_AUTHORITIES = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_LOOK_AGAIN = 60.0

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Connections:
    """Transports to the API server: for controllers, TokenReviews, SubjectAccessReviews, the lease."""

    work: Transport
    authentication: Transport
    authorization: Transport
    lease: Transport


class Endpoint:
    """Runs the server in an ``async with`` block, unless ``--secure-port=0``. ``started``: it listens."""

    def __init__(
        self,
        flags: ParsedFlags,
        health: Health,
        registry: CollectorRegistry,
        connections: Connections,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = 0
        self.started = asyncio.Event()
        self._flags = flags
        self._health = health
        self._registry = registry
        self._connections = connections
        self._configuration = configuration(flags, environment or {})
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._flags["secure-port"]:
            await self._stack.enter_async_context(self._serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def _serve(self) -> AsyncGenerator[None]:
        flags = self._flags
        tls = await asyncio.to_thread(
            ServerTls,
            flags["tls-cert-file"],
            flags["tls-private-key-file"],
            flags["cert-dir"],
            TLS_VERSIONS[flags["tls-min-version"]],
            flags["tls-cipher-suites"],
        )
        application = build_application(self._health, self._registry, self._configuration, self._guard())
        address, port = flags["bind-address"], flags["secure-port"]
        async with AsyncExitStack() as stack:
            server = serving(
                application,
                address=address,
                port=port,
                context=lambda: tls.context,
                reuse_port=flags["permit-port-sharing"],
            )
            try:
                self.port = await stack.enter_async_context(server)
            except OSError as error:
                problem = f"--secure-port: can't listen on {address} port {port}: {error.strerror or error}"
                raise ConfigurationError([problem]) from error
            log.info("serving", address=address, port=self.port)
            self.started.set()
            tending = asyncio.create_task(self._tend(tls), name="tls")
            try:
                yield
            finally:
                tending.cancel()

    def _guard(self) -> Guard:
        flags, connections = self._flags, self._connections
        return Guard(
            flags["authorization-always-allow-paths"],
            TokenReviewer(connections.authentication, flags["authentication-token-webhook-cache-ttl"]),
            AccessReviewer(
                connections.authorization,
                flags["authorization-webhook-cache-authorized-ttl"],
                flags["authorization-webhook-cache-unauthorized-ttl"],
            ),
        )

    async def _tend(self, tls: ServerTls) -> None:
        """Reload the certificate and the client CAs periodically until cancelled."""
        while True:
            try:
                if tls.reload():
                    log.info("certificate_reloaded")
                if tls.trust_clients(await self._authorities()):
                    log.info("client_authorities_changed")
            except (CcmError, OSError) as error:
                # Clients can still use tokens, and no client gets more permissions.
                log.warning("client_authorities_unknown", error=str(error))
            await asyncio.sleep(_LOOK_AGAIN)

    async def _authorities(self) -> str:
        """The CA certificates (PEM) for client certificates; empty = no client certificates."""
        if self._flags["client-ca-file"]:
            return _certificates_in(await asyncio.to_thread(Path(self._flags["client-ca-file"]).read_bytes))
        if self._flags["authentication-skip-lookup"]:
            return ""
        found = await self._connections.authentication.get(_AUTHORITIES, ConfigMap)
        return _certificates_in(found.data.get("client-ca-file", "").encode())


def _certificates_in(bundle: bytes) -> str:
    """Drop the non-ASCII characters of comments in a PEM bundle, because ``ssl`` requires ASCII."""
    return bundle.decode("ascii", "ignore")
