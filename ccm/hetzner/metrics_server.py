"""The official CCM's own metrics address (``:8233/metrics``), for whoever scrapes that.

Everything is on the manager's secure port as well. Two replicas on one host can't both have the port; the
second says so and works without it.
"""

from __future__ import annotations

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_log = structlog.stdlib.get_logger(__name__)


class MetricsServer:
    """Serves a registry.

    Args:
        registry: What to serve.
        address: ``host:port``; an empty host means all.
    """

    def __init__(self, registry: CollectorRegistry, address: str) -> None:
        self._registry = registry
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._runner: web.AppRunner | None = None

    @property
    def ports(self) -> list[int]:
        """Where it listens."""
        return [address[1] for address in self._runner.addresses] if self._runner else []

    async def start(self) -> None:
        """Listen; does nothing if it does already."""
        if self._runner is not None:
            return
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host.strip("[]") or None, self._port).start()
        except OSError as error:
            await runner.cleanup()
            why = error.strerror or str(error)
            _log.warning("metrics_not_served", port=self._port, why=why, hint="HCLOUD_METRICS_ADDRESS")
            return
        self._runner = runner

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
