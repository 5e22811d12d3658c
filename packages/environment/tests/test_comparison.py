import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pretended import commands_below

from sandbox.commands.compare import interruptible
from sandbox.comparison import stage
from sandbox.exit_codes import exit_code
from sandbox.kubernetes.toolchain import Toolchain
from tests.child_processes import run, script
from tests.waiting import wait

ROOT = Path(__file__).resolve().parents[3]


SCRIPT = """
import os, sys
from pathlib import Path
from sandbox.commands import compare
from sandbox.exit_codes import exit_code
from sandbox.site import Clone, cache_directory

clone = Clone("000000", Path(sys.argv[1]), Path(sys.argv[2]), cache_directory(os.environ))
sys.exit(exit_code(lambda: compare.run(clone, None)))
"""


@pytest.fixture
def command(tmp_path, programs):
    """The command in a separate clone with this tree."""
    return [sys.executable, "-c", SCRIPT, str(ROOT), str(tmp_path)]


@pytest.mark.slow
@pytest.mark.nightly
def test_both_clusters(command, tmp_path):
    done = run(command, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "<pending> forever" in said
    assert "ccm-from-scratch://" in said
    assert "10.244.0.0/24 via" in said
    assert "scheduled to with-" in said
    assert list(tmp_path.iterdir()) == []
    assert commands_below(tmp_path) == []


def test_a_cluster_that_does_not_start(tmp_path, capsys):
    script(tmp_path / "bin/etcd", "exit 3")
    script(tmp_path / "bin/kube-apiserver", "exec sleep 600")
    experiment = stage.compare(Toolchain(tmp_path), ROOT, tmp_path / "work", lambda _: None)
    assert exit_code(lambda: asyncio.run(interruptible(experiment))) == 1
    assert "✗ etcd ended" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_removes_everything(command, tmp_path):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        wait(lambda: running.poll() is not None or "kube-apiserver" in "".join(commands_below(tmp_path)), 120)
        assert running.poll() is None, running.stdout.read()
        os.kill(running.pid, signal.SIGINT)
        said = running.communicate(timeout=120)[0]
    assert running.returncode == 130, said
    assert list(tmp_path.iterdir()) == []
    assert commands_below(tmp_path) == []
