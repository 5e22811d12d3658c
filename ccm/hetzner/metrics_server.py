"""The official CCM's own metrics address (``:8233/metrics``), for whoever scrapes that.

Everything is on the manager's secure port as well. Two replicas on one host can't both have the port; the
second says so and works without it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ccm.http_server import serving

log = structlog.stdlib.get_logger(__name__)


class MetricsServer:
    """Serves a registry.

    Args:
        registry: What to serve.
        address: ``host:port``; an empty host means all.

    Attributes:
        port: Where it listens; 0 = nowhere.
    """

    def __init__(self, registry: CollectorRegistry, address: str) -> None:
        self.port = 0
        self._registry = registry
        self._host, _, port = address.rpartition(":")
        self._wanted_port = int(port)
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Listen; does nothing if it does already."""
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
