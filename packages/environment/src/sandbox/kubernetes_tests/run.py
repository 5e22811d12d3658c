"""Runs the tests with ginkgo, reports progress, and ends them cleanly."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sandbox.kubernetes_tests.report import Result, Tally
from sandbox.kubernetes_tests.selection import LIMITS, Selection

LOG, EVENTS, JUNIT, JSON = "log.txt", "events.jsonl", "junit.xml", "report.json"
"""Files that a test run leaves in its folder."""

SCRATCH = ".temporary-files-of-tests"
"""A folder that exists during a run. If a run is killed, the next run deletes the folder."""

LABEL = "e2e-framework"
"""Prefix of all namespaces that tests create."""

_TIMEOUT = "4h"
_POLL_SECONDS = 0.3
_CLEAN_SECONDS = 90.0
"""Seconds in which interrupted tests can delete their objects. After this time, the run kills the tests."""


@dataclass(frozen=True)
class Run:
    """What to run, and against which cluster."""

    programs: Path  # folder with ``ginkgo`` and ``e2e.test``
    kubectl: Path  # program that tests call
    kubeconfig: Path  # with all rights
    nodes: int  # how many take Pods
    cloud: Mapping[str, str]  # variables that name the cloud's API and its token
    chosen: Selection  # the tests
    processes: int  # number of parallel tests; Serial tests run one by one
    folder: Path  # an existing one for what the run leaves; what an earlier one left there is replaced


def command(run: Run) -> list[str]:
    """What starts ginkgo."""
    ginkgo = [
        f"--procs={run.processes}",
        f"--timeout={_TIMEOUT}",
        "--no-color",
        "--succinct",
        "--silence-skips",
        "--keep-going",
        f"--output-dir={run.folder}",
        f"--junit-report={JUNIT}",
        f"--json-report={JSON}",
        *(f"--focus={expression}" for expression in run.chosen.focus),
    ]
    tests = [
        "--provider=skeleton",
        f"--kubeconfig={run.kubeconfig}",
        f"--kubectl-path={run.kubectl}",
        f"--num-nodes={run.nodes}",
        "--disable-log-dump",
        f"--tell={run.folder / EVENTS}",
        f"--limits={run.folder / 'limits.json'}",
        *(["--deletes-servers"] if run.chosen.deletes_servers else []),
    ]
    return [str(run.programs / "ginkgo"), "run", *ginkgo, str(run.programs / "e2e.test"), "--", *tests]


def execute(
    run: Run, progress: Callable[[str], None], ended: Callable[[Result], None], lock: int
) -> tuple[int, Tally]:
    """Run the tests to their end; returns ginkgo's exit code, and the results.

    The tests keep the file with the descriptor ``lock`` locked should this process be killed. After Ctrl-C,
    those that run remove what they made, if they can do so in time.
    """
    folder = run.folder
    for name in (LOG, EVENTS, JUNIT, JSON):
        (folder / name).unlink(missing_ok=True)
    (folder / "limits.json").write_text(json.dumps(dict(LIMITS)))
    (folder / EVENTS).touch()
    tally = Tally()
    with (
        # Tests make files there at once, even those that are not chosen, and some stay.
        _emptied(folder / SCRATCH) as scratch,
        (folder / LOG).open("wb") as log,
        (folder / EVENTS).open() as lines,
    ):
        # A process group: Ctrl-C at the terminal reaches only us, and we ask ginkgo to end once.
        process = subprocess.Popen(
            # Should we be killed, the kernel asks them to end in our place.
            ["setpriv", "--pdeathsig", "INT", *command(run)],
            cwd=folder,
            env={**os.environ, **run.cloud, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            pass_fds=[lock],
        )
        try:
            while process.poll() is None:
                _read(lines, tally, ended)
                progress(tally.now())
                time.sleep(_POLL_SECONDS)
        except BaseException:
            _end(process, progress)
            raise
        _read(lines, tally, ended)
    return process.returncode, tally


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """A folder for a while, with nothing in it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _read(lines: TextIO, tally: Tally, ended: Callable[[Result], None]) -> None:
    """Take what is new; the last line may not be whole yet."""
    while True:
        before = lines.tell()
        line = lines.readline()
        if not line.endswith("\n"):
            lines.seek(before)
            return
        result = tally.take(line)
        if result is not None:
            ended(result)


def _end(process: subprocess.Popen[bytes], progress: Callable[[str], None]) -> None:
    """As Ctrl-C: tests clean up; whatever still runs after its time is killed, children included."""
    progress("interrupted. Waiting until the running tests have deleted their objects")
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C: no patience
        process.wait(_CLEAN_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
