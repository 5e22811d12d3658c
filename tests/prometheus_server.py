"""Real Prometheus and promtool, built from their Go module where they are not in the cache."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests import prepared
from tests.ports import free_port
from tests.programs.components import PROMETHEUS


def programs() -> Path:
    """The folder with ``prometheus`` and ``promtool``; skips the test where no Go compiler is to be had."""
    return prepared.programs(PROMETHEUS)


@dataclass
class Prometheus:
    url: str
    session: aiohttp.ClientSession

    async def api(self, path: str, **parameters: str) -> Any:
        """What its HTTP API answers; fails if it refuses the question."""
        async with self.session.get(f"{self.url}/api/v1/{path}", params=parameters) as answer:
            body = await answer.json()
        assert body["status"] == "success", (parameters, body["error"])
        return body["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The present samples of an expression, each with ``metric`` (labels) and ``value``."""
        return (await self.api("query", query=expression))["result"]


@asynccontextmanager
async def run(binaries: Path, configuration: Path, data: Path) -> AsyncIterator[Prometheus]:
    """Prometheus on loopback, which stores and logs in the folder ``data``."""
    port = free_port()
    with (data / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binaries / "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={data / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
            cwd=data,
        )
    try:
        async with aiohttp.ClientSession() as session:
            prometheus = Prometheus(f"http://127.0.0.1:{port}", session)
            async with asyncio.timeout(120):
                while not await _ready(prometheus):
                    assert process.returncode is None, (data / "log").read_text(encoding="utf-8")
                    await asyncio.sleep(0.1)
            yield prometheus
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)


async def _ready(prometheus: Prometheus) -> bool:
    try:
        async with prometheus.session.get(f"{prometheus.url}/-/ready") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
