"""The metrics of the official CCM, with its names."""

from contextlib import AsyncExitStack

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest

from ccm.http_server import serving


class OfficialMetrics:
    """The official CCM's metrics, for its dashboards and alerts; ``mode``: ``HCLOUD_SERVER_CACHE_MODE``."""

    def __init__(self, registry: CollectorRegistry, mode: str = "all") -> None:
        self._mode = mode
        self._operations = Counter(
            "cloud_controller_manager_operations_total",
            "The total number of calls of each operation.",
            ["op"],
            registry=registry,
        )
        self._lookups = Counter(
            "cloud_controller_manager_server_cache_requests_total",
            "Lookups of servers by result. The result `hit` means that the CCM used a cached list.",
            ["subsystem", "mode", "result"],
            registry=registry,
        )
        self._type_lookups = Counter(
            "cloud_controller_manager_load_balancer_type_cache_requests_total",
            "The number of lookups of load balancer types, for each result. The result `hit` means that the "
            "CCM used a cached list.",
            ["subsystem", "mode", "result"],
            registry=registry,
        )

    def operation(self, name: str) -> None:
        """Count a call of the controllers, by the official CCM's name for it."""
        self._operations.labels(name).inc()

    def lookup(self, subsystem: str, *, hit: bool) -> None:
        """Count a lookup of a server for ``instances_v2`` or ``routes``."""
        self._lookups.labels(subsystem, self._mode, "hit" if hit else "miss").inc()

    def type_lookup(self, *, hit: bool) -> None:
        """Count a lookup of load balancer types. As in the official CCM, the mode is always ``all``."""
        self._type_lookups.labels("load_balancer", "all", "hit" if hit else "miss").inc()


log = structlog.stdlib.get_logger(__name__)


class MetricsServer:
    """Serves a registry at the official CCM's own metrics address (``:8233/metrics``).

    The manager's secure port serves the same metrics. Of two replicas on one host, only one can use the port;
    the other logs a warning and continues. ``address``: ``host:port``; an empty host means all addresses.
    """

    def __init__(self, registry: CollectorRegistry, address: str) -> None:
        self.port = 0  # 0 = not listening
        self._registry = registry
        self._host, _, port = address.rpartition(":")
        self._wanted_port = int(port)
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start the server, unless it is running."""
        if self.port:
            return
        application = web.Application()
        application.router.add_get("/metrics", self._answer)
        server = serving(application, address=self._host.strip("[]"), port=self._wanted_port)
        try:
            self.port = await self._stack.enter_async_context(server)
        except OSError as error:
            why = error.strerror or str(error)
            log.warning("metrics_not_served", port=self._wanted_port, why=why, hint="HCLOUD_METRICS_ADDRESS")

    async def close(self) -> None:
        """Stop listening."""
        await self._stack.aclose()
        self.port = 0

    async def _answer(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
