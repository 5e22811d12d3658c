"""Helm, built from its Go module where it is not in the cache."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from sandbox.kubernetes.components import HELM
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from tests import child_processes
from tests.prepared import programs

TREE = Path(__file__).parents[2]
CHART = TREE / "charts" / "ccm-from-scratch"
IMAGE = "--set=image.repository=registry.example.com/ccm"

Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def helm_program() -> Path:
    return programs(HELM) / "helm"


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Runs it in a home of its own."""
    home = tmp_path_factory.mktemp("helm")

    def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        done = child_processes.run([helm_program, *map(str, arguments)], timeout=120, env=environment)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest_asyncio.fixture
async def cluster(kubernetes: Toolchain, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(kubernetes, tmp_path / "cluster") as running:
        yield running


@pytest.fixture
def render(helm: Helm) -> Callable[..., dict[str, Any]]:
    """What the chart makes of values: objects by kind and name, as `Role/name`."""

    def objects(*arguments: object) -> dict[str, Any]:
        done = helm("template", "ours", CHART, "--namespace=kube-system", IMAGE, *arguments)
        items = [item for item in yaml.safe_load_all(done.stdout) if item]
        found = {f"{item['kind']}/{item['metadata']['name']}": item for item in items}
        assert len(found) == len(items)
        return found

    return objects
