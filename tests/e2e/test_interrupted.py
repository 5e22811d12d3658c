"""kill -9 in the middle of ``up``: the next one goes on, nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

KINDS = ("servers", "networks", "ssh_keys", "placement_groups", "primary_ips", "firewalls")


def resources(clone):
    """The URNs in the state, or nothing while there is none."""
    try:
        (path,) = (clone.root / ".sandbox" / "pulumi").rglob("local.json")
        state = json.loads(path.read_text())
    except (ValueError, FileNotFoundError):
        return []
    return [r["urn"] for r in state["checkpoint"].get("latest", {}).get("resources", [])]


def killed_up(clone, when):
    """Start ``./dev up``, kill -9 the engine's whole process group once ``when()`` holds."""
    child = subprocess.Popen(
        ["./dev", "up", "--workers", "1"],
        cwd=clone.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: child.poll() is not None or when(), 300, "the moment to kill")
        assert child.poll() is None, "up ended before it could be killed"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(60)


def test_killed_at_three_points_ends_in_the_same_state(clone):
    for point in ("hcloud:index/network:Network", "hcloud:index/server:Server", "kubernetes:core/v1:Secret"):
        killed_up(clone, lambda point=point: any(point in urn for urn in resources(clone)))
    assert "which has ended: pulumi cancel" in clone.dev("up").stdout
    urns = resources(clone)
    assert len(urns) == len(set(urns))
    counts = {kind: len(clone.api(f"/{kind}")[kind]) for kind in KINDS}
    assert counts == dict(zip(KINDS, (2, 1, 1, 1, 4, 1), strict=True))
    said = clone.pulumi("up", "--stack", "local", "--yes", "--skip-preview").stdout
    assert "unchanged" in said
    assert "created" not in said
