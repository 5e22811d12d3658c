"""What all tests share: Kubernetes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from sandbox.commands.test import VARIABLE
from sandbox.kubernetes import releases, toolchain
from sandbox.kubernetes.controlplane import START_SECONDS, ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import cache_directory
from tests.prepared import missing


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
