"""Machines that run import an archive of images that their disks have already."""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hetzner_machines.airgap import FOLDER

DEADLINE = 120.0
"""Timeout for one machine in seconds, including the start of SSH and containerd."""
RETRY = 0.3
"""Seconds between attempts to log in to a machine that is booting."""
_UNREACHABLE = 255
"""Exit code of ssh if it could not log in."""


class Result(Enum):
    """What became of an archive on one machine."""

    IMPORTED = "has it"
    WAITS = "k3s is not installed yet; k3s imports the image at its first start"
    OFF = "the server is off; k3s imports the image when the server starts again"
    UNREACHED = "the server can't be reached yet; k3s imports the image when k3s starts again"
    STRANGER = (
        "the server doesn't accept the Pulumi program's SSH key; k3s imports the image when k3s starts again"
    )
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """What one machine did with an archive."""

    result: Result  # in one word
    said: str = ""  # what the machine or ssh printed, where it failed


def script(name: str) -> str:
    """What a machine runs."""
    archive = shlex.quote(f"/{FOLDER}/{name}")
    return f"""set -eu
if ! command -v k3s > /dev/null; then echo {Result.WAITS.name}; exit 0; fi
if ! k3s ctr images import {archive} > /dev/null 2>&1; then
  n=0
  # containerd starts a moment after k3s
  until said=$(k3s ctr version 2>&1); do
    n=$((n + 1))
    [ "$n" -lt 300 ] || {{ echo "$said" >&2; exit 1; }}
    sleep 0.2
  done
  k3s ctr images import {archive} > /dev/null
fi
echo {Result.IMPORTED.name}
"""


async def import_all(logins: Mapping[str, Sequence[str]], name: str) -> dict[str, Answer]:
    """Let machines import an archive, side by side; returns what each did."""
    async with asyncio.TaskGroup() as group:
        asked = {
            server: group.create_task(import_one(login, name)) for server, login in sorted(logins.items())
        }
    return {server: task.result() for server, task in asked.items()}


async def import_one(login: Sequence[str], name: str) -> Answer:
    """Let one machine import an archive; one that still boots is waited for."""
    said = ""
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                status, printed, said = await _run([*login, script(name)])
                if status == 0:
                    # A login shell's own greeting comes first.
                    word = printed.split()[-1:]
                    if word in ([Result.IMPORTED.name], [Result.WAITS.name]):
                        return Answer(Result[word[0]])
                    return Answer(Result.FAILED, f"answers {printed.strip()!r:.80}")
                if status != _UNREACHABLE:
                    return Answer(Result.FAILED, said or f"ended with {status}")
                if "Permission denied" in said:
                    return Answer(Result.STRANGER)
                await asyncio.sleep(RETRY)
    except TimeoutError:
        return Answer(Result.FAILED, f"the import did not finish within {DEADLINE:g} s{said and ': ' + said}")


async def _run(command: Sequence[str]) -> tuple[int, str, str]:
    """Exit status and both outputs of a command; it ends when we are cancelled."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, said = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, printed.decode(errors="replace"), said.decode(errors="replace").strip()
