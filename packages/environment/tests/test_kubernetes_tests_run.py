import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sandbox.kubernetes_tests.report import Result
from sandbox.kubernetes_tests.run import EVENTS, SCRATCH, Run, command, execute
from sandbox.kubernetes_tests.selection import DEFAULT, DELETION, LIMITS
from tests import child_processes


def wanted(folder: Path, script: str, chosen=DEFAULT) -> Run:
    """A run whose ginkgo is a shell script; it writes where the tests would."""
    child_processes.script(folder / "ginkgo", f"events={folder / EVENTS}\n{script}")
    cloud = {"HCLOUD_TOKEN": "secret"}
    return Run(folder, Path("kubectl"), Path("kubeconfig"), 3, cloud, chosen, 4, folder)


@pytest.fixture
def lock(tmp_path):
    with (tmp_path / "lock").open("w") as file:
        yield file.fileno()


def test_results_are_read_during_a_run(tmp_path, lock):
    first, second = (json.dumps({"name": name, "state": "passed"}) for name in "ab")
    script = f"""
        echo '{first}' >> $events
        printf %s '{second[:9]}' >> $events
        until [ -e {tmp_path}/seen ]; do sleep 0.01; done
        echo '{second[9:]}' >> $events
        exit 3"""
    seen: list[Result] = []

    def ended(result: Result) -> None:
        seen.append(result)
        (tmp_path / "seen").touch()

    code, tally = execute(wanted(tmp_path, script), lambda _: None, ended, lock)
    assert code == 3
    assert [result.name for result in seen] == ["a", "b"]
    assert tally.results == seen
    assert json.loads((tmp_path / "limits.json").read_text()) == LIMITS


def test_an_interrupt_lets_the_tests_clean_up(tmp_path, lock):
    script = f"""
        trap 'touch {tmp_path}/cleaned; exit 1' INT
        echo '{json.dumps({"name": "a", "state": "running"})}' >> $events
        while :; do sleep 0.01; done"""

    def interrupt(text: str) -> None:
        if text.endswith("; a"):
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        execute(wanted(tmp_path, script), interrupt, lambda _: None, lock)
    assert (tmp_path / "cleaned").exists()


KILLED = """
import fcntl, os, signal, sys
from pathlib import Path
from sandbox.kubernetes_tests.run import Run, execute
from sandbox.kubernetes_tests.selection import DEFAULT

def kill(text):
    if text.endswith("; a"):
        os.kill(os.getpid(), signal.SIGKILL)

folder = Path(sys.argv[1])
with (folder / "lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    run = Run(folder, Path("kubectl"), Path("kubeconfig"), 3, {}, DEFAULT, 4, folder)
    execute(run, kill, lambda _: None, lock.fileno())
"""


def test_tests_end_after_this_process_is_killed(tmp_path, lock):
    script = f"""
        trap 'touch {tmp_path}/cleaned; exit 1' INT
        echo '{json.dumps({"name": "a", "state": "running"})}' >> $events
        n=0; while [ $((n += 1)) -lt 9000 ]; do sleep 0.01; done"""
    wanted(tmp_path, script)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    # They have the lock as long as they live.
    subprocess.run(["flock", "--wait", "60", str(tmp_path / "lock"), "true"], check=True, timeout=90)
    assert (tmp_path / "cleaned").exists()
    (tmp_path / SCRATCH / "left").mkdir()
    execute(wanted(tmp_path, f"ls $TMPDIR > {tmp_path}/seen"), lambda _: None, lambda _: None, lock)
    assert (tmp_path / "seen").read_text() == ""
    assert not (tmp_path / SCRATCH).exists()


def test_tokens_are_not_on_the_command_line(tmp_path):
    usual, deleting = (command(wanted(tmp_path, "", chosen)) for chosen in (DEFAULT, DELETION))
    assert not any("secret" in word for word in usual)
    assert "--deletes-servers" in deleting
    assert "--deletes-servers" not in usual
    focused = [word for word in usual if word.startswith("--focus=")]
    assert focused == [f"--focus={one}" for one in DEFAULT.focus]
