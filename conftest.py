"""What all tests of the workspace share: how they run, and Kubernetes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sandbox.commands.test import VARIABLE
from sandbox.kubernetes import releases, toolchain
from sandbox.kubernetes.controlplane import START_SECONDS, ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import cache_directory
from sandbox.testing import durations
from sandbox.testing.layers import COMMIT, NIGHTLY, PROFILE
from tests.prepared import missing
from tests.recording import Recorder

pytest.register_assert_rewrite("tests.e2e")  # helpers contain assertions, too

# No test is timed: how fast a busy machine gets through an example says nothing about the code.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(COMMIT, _UNTIMED, max_examples=25)
settings.register_profile(NIGHTLY, _UNTIMED, max_examples=200)
settings.register_profile("mutants", _UNTIMED, max_examples=30, derandomize=True, database=None)
settings.load_profile(os.environ.get(PROFILE, COMMIT))
# The usual limits cost a tenth of the time: modules and tests are many objects, and few of them are garbage.
gc.set_threshold(20_000, 50, 100)


def pytest_configure(config: pytest.Config) -> None:
    # Containers set the variable, and people don't. A test must fail if the code doesn't flush its output.
    os.environ.pop("PYTHONUNBUFFERED", None)
    # Otherwise, gRPC's threads also run in a forked process, and can end it before it executes its program.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    # Before Python 3.12, pytest-asyncio otherwise creates an event loop and doesn't close it.
    asyncio.set_event_loop(None)
    # A script's background processes ignore Ctrl-C, and so would the processes that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if runs_tests and (folder := os.environ.get(durations.FOLDER)):
        config.pluginmanager.register(Recorder(Path(folder), os.environ[durations.LAYER]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark tests that run Kubernetes, before -m looks, and begin with what took longest in the last run."""
    for item in items:
        if "kubernetes_version" in getattr(item, "fixturenames", ()):
            item.add_marker("kubernetes")
        if item.get_closest_marker("looptime"):
            # By default, the loop polls 42 times before its clock moves. Two are enough here.
            item.add_marker(pytest.mark.looptime(noop_cycles=2))
    yield
    if folder := os.environ.get(durations.FOLDER):
        known = durations.known_modules(Path(folder))
        items.sort(key=lambda item: -known.get(item.nodeid.partition("::")[0], 0.0))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run have."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def kubernetes_version() -> str:
    """Of the Kubernetes that tests run, without the leading v."""
    asked = os.environ.get(VARIABLE)
    return releases.named(asked, VARIABLE) if asked else releases.default()


@pytest.fixture(scope="session")
def kubernetes(kubernetes_version: str) -> Toolchain:
    """Kubernetes of that version, without what machines need besides."""
    built = toolchain.find(cache_directory(os.environ), releases.control_plane(kubernetes_version))
    if built is None:
        missing(f"Kubernetes {kubernetes_version} isn't built: run ./dev setup or ./dev test --kubernetes")
    return built


@pytest.fixture(scope="session")
def machine_programs() -> Toolchain:
    """All programs, of the default version; ``kubernetes`` has those of the control plane."""
    built = toolchain.find(cache_directory(os.environ))
    if built is None:
        missing("a part of the Kubernetes toolchain isn't built: run ./dev setup", for_machines=True)
    return built


@pytest.fixture(scope="session")
def shared_plane(kubernetes: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for those tests of this process that leave nothing but objects of their own names.

    Its processes belong to an event loop of its own: those of tests end with them.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    plane = ControlPlane(kubernetes, tmp_path_factory.mktemp("plane"))
    try:
        asyncio.run_coroutine_threadsafe(plane.start(), loop).result(START_SECONDS)
        yield plane
    finally:
        asyncio.run_coroutine_threadsafe(plane.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes get no name of their content: what is compressed holds the time, and workers have to agree."""
    return "bytes" if isinstance(val, bytes) else None
