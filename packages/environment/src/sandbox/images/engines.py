"""The container engines of this host, asked for an image by its name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.images.archive import full_name
from sandbox.images.errors import NoSuchImage

SAVE_SECONDS = 600.0

# containerd's own client takes nothing but full names
_CONTAINERD: Mapping[str, Callable[[str], Sequence[str]]] = {
    "nerdctl": lambda name: ("image", "save", "--", name),
    "ctr": lambda name: ("images", "export", "-", full_name(name)),
}
ENGINES: Mapping[str, Callable[[str], Sequence[str]]] = {
    "docker": lambda name: ("image", "save", "--", name),
    "podman": lambda name: ("image", "save", "--", name),
    **_CONTAINERD,
    **{
        f"{client} --namespace={namespace}": arguments
        for client, arguments in _CONTAINERD.items()
        for namespace in ("k8s.io", "moby")
    },
}
"""How each is called, and the arguments with which it writes an image to its standard output.

A containerd keeps the images of each of its namespaces apart. Both clients ask one of them: what
``CONTAINERD_NAMESPACE`` says, else ``default``. Kubernetes' images are in ``k8s.io``, Docker's, where it
leaves them to containerd, in ``moby``.
"""


def save(name: str, target: Path) -> str:
    """Write an image into a file, from the first engine that has it.

    Returns:
        The engine's name, with the namespace that it was found in.

    Raises:
        NoSuchImage: No engine has it, or there is none.
    """
    answers = {}
    for engine, arguments in ENGINES.items():
        command, *options = engine.split()
        program = shutil.which(command)
        if program is None:
            continue
        said = _run([program, *options, *arguments(name)], target)
        if said is None:
            return engine
        answers[engine] = said
    raise NoSuchImage(name, answers)


def _run(command: Sequence[str], target: Path) -> str | None:
    """None when it went well, else what it said."""
    with target.open("wb") as file:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                timeout=SAVE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {SAVE_SECONDS:g} s"
        except OSError as error:
            return str(error)
    if done.returncode == 0:
        return None
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return (last or [f"ended with {done.returncode}"])[0][:300]
