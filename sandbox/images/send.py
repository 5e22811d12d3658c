"""An archive of images on its way to the machines that run."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sandbox.machines.airgap import FOLDER

DEADLINE = 120.0
"""Seconds for one machine, with the start of its SSH and its containerd."""
RETRY = 0.3
"""Seconds between two tries to log in to a machine that still boots."""
_UNREACHABLE = 255
"""What ssh ends with when it could not log in."""


class Result(Enum):
    """What became of an archive on one machine."""

    IMPORTED = "has it"
    WAITS = "has no k3s yet, which will import it"
    STRANGER = "was left out: it does not know the key of the Pulumi program"
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """What one machine did with an archive.

    Attributes:
        result: In one word.
        said: What the machine or ssh printed, where it failed.
    """

    result: Result
    said: str = ""


def script(name: str, replaced: Sequence[str]) -> str:
    """What a machine runs with the archive as its standard input.

    The file is whole before it has its name: k3s may look at its folder at any moment.

    Args:
        name: The archive's file name there.
        replaced: File names of archives that it takes the place of.
    """
    folder = shlex.quote(f"/{FOLDER}")
    old = " ".join(shlex.quote(each) for each in replaced)
    return f"""set -eu
mkdir -p {folder}
cd {folder}
cat > .{name}.new
mv .{name}.new {name}
{f"rm -f -- {old}" if old else ":"}
if ! command -v k3s > /dev/null; then echo {Result.WAITS.name}; exit 0; fi
n=0
# containerd comes a moment after k3s
until said=$(k3s ctr version 2>&1); do
  n=$((n + 1))
  [ "$n" -lt 300 ] || {{ echo "$said" >&2; exit 1; }}
  sleep 0.2
done
k3s ctr images import {name} > /dev/null
echo {Result.IMPORTED.name}
"""


async def send_all(
    logins: Mapping[str, Sequence[str]], archive: Path, replaced: Sequence[str]
) -> dict[str, Answer]:
    """Send an archive to machines, side by side.

    Args:
        logins: By server name, the command that logs in; what runs there is put behind it.
        archive: The file.
        replaced: File names of archives that it takes the place of.

    Returns:
        What each did, in the order of the names.
    """
    async with asyncio.TaskGroup() as group:
        sent = {
            name: group.create_task(send(login, archive, replaced)) for name, login in sorted(logins.items())
        }
    return {name: task.result() for name, task in sent.items()}


async def send(login: Sequence[str], archive: Path, replaced: Sequence[str]) -> Answer:
    """Send an archive to one machine; one that still boots is waited for.

    Args:
        login: The command that logs in.
        archive: The file.
        replaced: File names of archives that it takes the place of.
    """
    said = ""
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                status, printed, said = await _run([*login, script(archive.name, replaced)], archive)
                if status == 0:
                    return Answer(Result[printed.strip()])
                if status != _UNREACHABLE:
                    return Answer(Result.FAILED, said or f"ended with {status}")
                if "Permission denied" in said:
                    return Answer(Result.STRANGER)
                await asyncio.sleep(RETRY)
    except TimeoutError:
        return Answer(Result.FAILED, f"not within {DEADLINE:g} s{said and ': ' + said}")


async def _run(command: Sequence[str], archive: Path) -> tuple[int, str, str]:
    """Exit status and both outputs of a command that reads the archive; it ends when we are cancelled."""
    with archive.open("rb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=file, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    try:
        printed, said = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, printed.decode(errors="replace"), said.decode(errors="replace").strip()
