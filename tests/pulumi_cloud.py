"""A Hetzner Cloud for programs that the Pulumi CLI runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pulumi_lab import ROOT, RUNTIME, Lab
from tests.served_cloud import EmulatedCloud, serve


def lab_at(folder: Path, cloud: EmulatedCloud, *, refresh: bool = False, **environment: str) -> Lab:
    """A project that polls the actions of an emulated cloud often, and can import this repository."""
    lab = Lab(folder, {"HCLOUD_ENDPOINT": cloud.endpoint, "PYTHONPATH": str(ROOT), **environment})
    options = "options:\n  refresh: always\n" if refresh else ""
    polling = "config:\n  hcloud:pollFunction: constant\n  hcloud:pollInterval: 50ms\n"
    lab.write("Pulumi.yaml", f"name: lab\n{RUNTIME}{options}{polling}")
    return lab


@pytest.fixture
def cloud() -> Iterator[EmulatedCloud]:
    yield from serve("instant")


@pytest.fixture
def slow_cloud() -> Iterator[EmulatedCloud]:
    yield from serve("realistic")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def hetzner(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    return lab_at(tmp_path, cloud)
