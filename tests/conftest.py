"""What all tests share."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from host_share import Share, in_turn, needed
from hypothesis import HealthCheck, settings

from sandbox.commands.test import VARIABLE
from sandbox.kubernetes import releases, toolchain
from sandbox.kubernetes.controlplane import START_SECONDS, ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.machines import capacity
from sandbox.site import cache_directory
from tests.prepared import missing

# No test is timed: how fast a busy machine gets through an example says nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `./dev bench mutants` runs a test hundreds of times.
settings.register_profile(
    "mutants", settings.get_profile("untimed"), max_examples=30, derandomize=True, database=None
)
settings.load_profile("untimed")

SHARE = pytest.StashKey[Share]()
FREE = "CCMFS_TEST_INSTANCES"
"""How many inotify instances were free before the first test; the workers of pytest-xdist inherit it."""


def pytest_configure() -> None:
    # Before Python 3.12, pytest-asyncio's look at the current event loop makes one that nobody closes, unless
    # it was told that there is none.
    asyncio.set_event_loop(None)
    # What a script starts in the background ignores Ctrl-C, and so would all that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if FREE not in os.environ and capacity.LIMIT.exists():
        os.environ[FREE] = str(capacity.instances_free(capacity.instances_allowed()))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the timeout: who waits does not hang
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Boot no more machines at a time than there were inotify instances for before the first test."""
    stash = item.config.stash
    if (number := needed(item)) and SHARE not in stash and FREE in os.environ:
        stash[SHARE] = Share(cache_directory(os.environ) / "tests.lock", int(os.environ[FREE]))
        item.config.add_cleanup(stash[SHARE].close)
    if SHARE not in stash:
        return (yield)
    stash[SHARE].take(number)
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            stash[SHARE].give_back()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark what runs Kubernetes, before -m looks, and put what is left after it in turn.

    `./dev test --kubernetes VERSION` takes what is so marked with another version.
    """
    for item in items:
        if "kubernetes_version" in getattr(item, "fixturenames", ()):
            item.add_marker("kubernetes")
    yield
    needs: dict[Path, int] = {}
    for item in items:
        needs[item.path] = max(needs.get(item.path, 0), needed(item))
    if any(needs.values()):
        turns = {path: turn for turn, path in enumerate(in_turn(needs))}
        items.sort(key=lambda item: turns[item.path])


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
        missing(f"Kubernetes {kubernetes_version} is not built: ./dev setup, ./dev test --kubernetes")
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
