"""Hetzner's own client for Go works with the emulated API.

The program is ours (``hcloud-go`` beside this file), the client that it calls is not.
"""

import subprocess
from pathlib import Path

import pytest

from sandbox.kubernetes.components import Component
from tests import child_processes
from tests.prepared import programs
from tests.served_cloud import TOKEN

pytestmark = pytest.mark.slow

HCLOUD_GO = Component(
    "hcloud-go",
    pin="github.com/hetznercloud/hcloud-go/v2",
    packages=(".",),
    programs=("hcloud-go",),
    folder=Path(__file__).parent,
)

SCENARIOS = "certificates firewalls floating-ips load-balancers primary-ips servers snapshots volumes zones"


@pytest.fixture(scope="session")
def program() -> Path:
    return programs(HCLOUD_GO) / "hcloud-go"


def run(program: Path, scenario: str, endpoint: str) -> subprocess.CompletedProcess[str]:
    environment = {"HCLOUD_ENDPOINT": endpoint, "HCLOUD_TOKEN": TOKEN}
    return child_processes.run([program, scenario], timeout=90, env=environment)


@pytest.mark.timeout(600)  # the first one builds it
@pytest.mark.parametrize("scenario", SCENARIOS.split())
def test_the_client_works(program, service, scenario):
    service.post(f"{service.base}/_sandbox/reset", timeout=60).raise_for_status()
    done = run(program, scenario, f"{service.base}/v1")
    assert done.returncode == 0, done.stderr
