"""Reads an image by its name from the container engines of this host."""

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.images.archive import full_name

SAVE_SECONDS = 600.0

# containerd's own client accepts full names only
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
"""The commands, and the arguments that make each command write an image to standard output.

By default, containerd's clients read only the namespace in ``CONTAINERD_NAMESPACE``, or ``default``. So other
entries select ``k8s.io``, the namespace of Kubernetes, and ``moby``, the namespace of Docker.
"""
_PROGRAMS = ("docker", "podman", *_CONTAINERD)


def save(name: str, target: Path) -> str:
    """Write an image into a file, from the first engine that has it; returns engine and namespace."""
    errors = []
    for engine, arguments in ENGINES.items():
        command, *options = engine.split()
        program = shutil.which(command)
        if program is None:
            continue
        error = _run([program, *options, *arguments(name)], target)
        if error is None:
            return engine
        errors.append(f"{engine}: {error}")
    why = "; ".join(errors) or f"no container engine is on PATH ({', '.join(_PROGRAMS)})"
    raise SandboxError(f"{name} is neither a file nor an image in a container engine on this host. {why}")


def _run(command: Sequence[str], target: Path) -> str | None:
    """None, or the error."""
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
