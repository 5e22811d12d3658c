"""A machine that nobody prepared: after nothing but 'git clone', up, the fast tests and down work there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.machines import probe
from tests.judges.bare_machine import bare_machine, tracked

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(2400)]

TREE = Path(__file__).resolve().parents[2]
SECONDS = 2000
# Whatever happens, nothing of this machine's may stay.
SCRIPT = "trap './dev down --force >/dev/null 2>&1 || true' EXIT; set -e; {commands}; ./dev down; trap - EXIT"


@pytest.fixture(autouse=True)
def possible(tmp_path):
    reason = probe.available(tmp_path)
    if reason:
        pytest.skip(reason)


def session(suite, user, *commands):
    """What a session on a new machine prints."""
    with bare_machine(suite, user, tracked(TREE), TREE) as machine:
        done = machine.run(SCRIPT.format(commands="; ".join(commands)), SECONDS)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "nothing is left of site" in done.stdout
    return done.stdout


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_root_gets_machines(suite):
    said = session(suite, "root", "./dev doctor", "./dev up", "./dev kubectl get nodes")
    examined, _, brought_up = said.partition("✓ Debian packages")
    assert "haproxy" in examined  # doctor has said what up is going to install
    assert "records with hollow nodes" not in said
    for name in ("control", "worker-1", "worker-2"):
        assert re.search(rf"^ccm-from-scratch-{name} +Ready ", brought_up, re.MULTILINE), name


def test_a_user_without_roots_powers_gets_hollow_nodes_and_is_told_how_to_get_more():
    # The fast tests once: with the oldest Python that we promise, and without root's powers.
    said = session("bookworm", "visitor", "./dev up", "./dev kubectl get nodes", "./dev test unit")
    first, *_ = [line for line in said.splitlines() if not line.startswith(("• installing", "• making"))]
    assert first.startswith("• servers are records with hollow nodes here, without Pods and traffic: ")
    assert "sudo ./dev up" in first
    for name in ("control", "worker-1", "worker-2"):
        assert re.search(rf"^ccm-from-scratch-{name} +Ready ", said, re.MULTILINE), name
