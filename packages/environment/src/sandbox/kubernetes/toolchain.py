"""Upstream Kubernetes and what it needs, built from pinned Go modules into a cache that all clones share.

Each component is built into a folder named by the hash of its pins, by way of a temporary folder
and a rename: what is there is complete, an interrupted build continues with the next component, and nothing
is done twice. ``Toolchain.bin`` is a folder of links to them.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmfs_common import host, locks
from sandbox.errors import SandboxError
from sandbox.kubernetes.components import COMPONENTS, Component, build_command
from sandbox.kubernetes.estimate import Cost, costs, duration, seconds_left
from sandbox.kubernetes.go import build_environment, find_go, heap_settings, parallelism
from sandbox.kubernetes.processes import Progress, require, run

_BUILD_SECONDS = 7200.0


@dataclass(frozen=True)
class Toolchain:
    """The built programs."""

    directory: Path  # folder in the cache

    @property
    def bin(self) -> Path:
        """Folder with kubectl, etcd, kube-apiserver, kubelet, containerd, runc, coredns and so on."""
        return self.directory / "bin"

    @property
    def cni(self) -> Path:
        """Folder with the CNI plugins."""
        return self.directory / "cni"

    @property
    def key(self) -> str:
        """Changes when any program changes."""
        return self.directory.name


def find(cache: Path, components: Sequence[Component] = COMPONENTS) -> Toolchain | None:
    """A toolchain for the current pins that has these components, or None where none has been built."""
    for built in (components, COMPONENTS):
        directory = cache / "toolchain" / _key(built)
        if set(components) <= set(built) and directory.is_dir():
            return Toolchain(directory)
    return None


def unbuilt(cache: Path, components: Sequence[Component] = COMPONENTS) -> list[Component]:
    """What is still to be built for a toolchain."""
    if find(cache, components):
        return []
    return [component for component in components if not (cache / "toolchain" / component.key).is_dir()]


def ensure(cache: Path, progress: Progress, components: Sequence[Component] = COMPONENTS) -> Toolchain:
    """The toolchain, built where it is missing."""
    found = find(cache, components)
    if found:
        return found
    home = cache / "toolchain"
    with explained(home):
        missing = unbuilt(cache, components)
        if missing:
            _build(cache, missing, progress)
        with locked(home / "lock", "the toolchain", progress):
            return find(cache, components) or _link(home, components)


def _key(components: Sequence[Component]) -> str:
    keys = "\n".join(c.key for c in components)
    return "all-" + hashlib.sha256(keys.encode()).hexdigest()[:12]


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what the file system says into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"{folder} can't be written: {error}. Free up disk space, or make the folder writable."
        ) from error


@contextmanager
def locked(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """Hold a lock file, so that two clones don't do the same work."""
    with locks.awaited(path, lambda: progress(f"waiting until another process has built {what}")):
        yield


@contextmanager
def complete(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` at the end, so a folder with that name is complete."""
    temporary = target.with_name(f".{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    yield temporary
    temporary.rename(target)


def _build(cache: Path, missing: Sequence[Component], progress: Progress) -> None:
    if any(component.needs_gcc for component in missing):
        require("gcc", "gcc")
    home = cache / "toolchain"
    with locked(home / "go.lock", "Go", progress):
        go = find_go(cache, progress)
    recorded, started, cores = costs(missing), time.monotonic(), len(os.sched_getaffinity(0))
    for number, component in enumerate(missing):
        what = f"building {component.name} {component.version}"
        todo, done = recorded[number:], sum(cost.seconds for cost in recorded[:number])

        def left(compiled: int, todo: Sequence[Cost] = todo, done: float = done) -> str:
            seconds = seconds_left(todo, compiled, done, time.monotonic() - started, cores)
            return f"{duration(seconds)} left"

        # One lock per component, so that a clone waits only for what it needs.
        with locked(home / f"{component.name}.lock", component.name, progress):
            if (home / component.key).is_dir():
                continue
            progress(what)
            build(component, go, home, what, progress, left)


def build(  # noqa: PLR0917
    component: Component,
    go: str,
    home: Path,
    what: str,
    progress: Progress,
    left: Callable[[int], str] | None = None,
) -> int:
    """Build one component below ``home``, in the folder of its key; returns how many packages were compiled.

    ``left`` gets the number of packages compiled so far, and returns how much is left.
    """
    memory = host.available_memory()
    parallel = parallelism(len(os.sched_getaffinity(0)), memory)
    heap = heap_settings(parallel, memory)
    environment = build_environment(os.environ, cgo=component.cgo, parallel=parallel, heap=heap)
    with complete(home / component.key) as folder:
        folder.mkdir(parents=True)
        # Builds run in the background: interactive programs go first.
        command = ("nice", "-n", "5", *build_command(component, go, folder))
        cwd, seconds = component.directory, _BUILD_SECONDS
        printed = run(
            what, command, progress=progress, cwd=cwd, environment=environment, timeout=seconds, left=left
        )
        for module, _, path in (file.partition(":") for file in component.files):
            ask = (go, "list", "-m", "-f", "{{.Dir}}", module)
            said = run(f"the folder of {module}", ask, progress=progress, cwd=cwd, environment=environment)
            shutil.copyfile(Path(said.splitlines()[-1], path), folder / Path(path).name)
            (folder / Path(path).name).chmod(0o755)
        for link in component.links:
            (folder / link).symlink_to(component.programs[0])
    return sum(1 for line in printed.splitlines() if line and not line.startswith(("go: ", "#")))


def _link(home: Path, components: Sequence[Component]) -> Toolchain:
    directory = home / _key(components)
    with complete(directory) as temporary:
        for component in components:
            folder = temporary / ("cni" if component.plugins else "bin")
            folder.mkdir(parents=True, exist_ok=True)
            for name in component.programs + component.links:
                (folder / name).symlink_to(Path("..", "..", component.key, name))
    return Toolchain(directory)
