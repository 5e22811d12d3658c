"""Emulators whose every answer is validated; and the wheel, installed outside of the tree."""

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from random import Random
from typing import Any

import pytest
import requests
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from cloud_emulator import READ_TOKEN, TOKENS, Emulator, Start
from cloud_openapi import description

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import Backend, RecordsBackend
from hetzner_emulator.config import CloudConfig
from tests.installed import TREE, Installed, at, begun, once, uv
from tests.served_cloud import TOKEN, serve


@web.middleware
async def validate(request: web.Request, handler: Any) -> web.StreamResponse:
    response = await handler(request)
    known = description()
    if known is not None and request.path.startswith("/v1/") and isinstance(response, web.Response):
        is_json = response.content_type == "application/json" or response.status == 204
        if is_json and response.status not in {404, 405, 499}:
            body = bytes(response.body or b"")
            problems = known.problems(request.method, request.path.removeprefix("/v1"), response.status, body)
            if problems:
                return web.Response(status=599, text="\n".join(problems))
    return response


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start emulators; all end with the test."""
    async with AsyncExitStack() as stack:

        async def run(backend: Backend | None = None, **settings: Any) -> Emulator:
            usual = {"tokens": TOKENS, "read_only_tokens": frozenset({READ_TOKEN}), "rate_limit": 0}
            config = CloudConfig(**usual | settings)
            app = create_app(config, backend or RecordsBackend(), randomness=Random(1))
            app.middlewares.append(validate)
            server = TestServer(app)
            await server.start_server()
            stack.push_async_callback(server.close)
            session = await stack.enter_async_context(ClientSession())
            return Emulator(app, server, session)

        yield run


@pytest.fixture
async def emulator(start: Start) -> Emulator:
    return await start(public_ipv4=IPv4Network("198.18.0.0/20"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzzed", type=int, default=0, help="requests made of Hetzner's document")


class Service(requests.Session):
    """A client of a cloud in another thread.

    Attributes:
        base: Its address, without a path.
        writes: How many requests were sent that may change something.
    """

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base, self.writes = base, 0
        self.headers["Authorization"] = f"Bearer {TOKEN}"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.writes += request.method != "GET"
        return super().send(request, **options)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with contextmanager(serve)("instant") as cloud, Service(cloud.endpoint.removesuffix("/v1")) as running:
        yield running


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@dataclass(frozen=True)
class Guide:
    """docs/guides/testing-with-the-emulator.md."""

    examples: str  # its Python, as one file
    typed: list[str]  # its command lines


@pytest.fixture(scope="session")
def guide() -> Guide:
    text = (TREE / "docs/guides/testing-with-the-emulator.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    typed = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return Guide("".join(examples), "".join(typed).splitlines())


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    with once(shared, "emulator") as new:
        if new:
            uv("build", "--quiet", "--out-dir", str(new), str(TREE / "packages/emulator"))
    (found,) = (shared / "emulator").glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(shared: Path, wheel: Path, guide: Guide) -> Installed:
    """The wheel as the guide installs it, and pytest."""
    with begun(shared, "emulator-installed") as new:
        if new:
            uv("venv", "--quiet", "--seed", str(new.root))
            (new.folder / "dist").mkdir()
            (new.folder / "dist" / wheel.name).symlink_to(wheel)
            (line,) = (line for line in guide.typed if line.startswith("pip install"))
            said = new.run("sh", "-c", line)
            assert not said.returncode, said.stdout
            shutil.rmtree(new.folder / "dist")
            uv("pip", "install", "--quiet", "--python", new.python, "pytest", "pytest-xdist")
    return at(shared, "emulator-installed")
