"""The fixture; every run of pytest loads this module, so it imports little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hetzner_emulator.testing.cloud import HetznerCloud


@pytest.fixture(scope="session")
def _hetzner_cloud_process() -> Iterator[HetznerCloud]:
    from hetzner_emulator.testing.cloud import running  # noqa: PLC0415  only for tests with the fixture

    with running() as cloud:
        yield cloud


@pytest.fixture
def hetzner_cloud(_hetzner_cloud_process: HetznerCloud) -> HetznerCloud:
    """An emulated Hetzner Cloud with a fresh project: no objects, no faults, an empty log of requests."""
    _hetzner_cloud_process.reset()
    return _hetzner_cloud_process
