"""What a user installs: wheels, built as a user's tool builds them, in environments outside of the tree."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from tests import child_processes

TREE = Path(__file__).resolve().parents[1]
SECONDS = 600


@dataclass(frozen=True)
class Installed:
    """An environment with a wheel in it."""

    root: Path
    folder: Path  # commands run here, where nothing of the tree is

    @property
    def python(self) -> str:
        return str(self.root / "bin/python")

    @property
    def variables(self) -> dict[str, str]:
        """Nothing that leads into the tree or its environment."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CCMFS_"))
        }
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
            kept.pop(name, None)
        return kept | {"PATH": f"{self.root / 'bin'}{os.pathsep}{os.defpath}"}

    def run(self, *command: str, cwd: Path | None = None, seconds: float = SECONDS):
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )


@contextmanager
def once(folder: Path, name: str) -> Iterator[Path | None]:
    """A folder that the first of several workers fills; to the others it is None: all is there."""
    made = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            yield None
            return
        begun = folder / f"{name}.new"
        begun.mkdir()
        yield begun
        begun.rename(made)


def uv(*arguments: str) -> None:
    done = child_processes.run([find_uv_bin(), *arguments], timeout=SECONDS, cwd="/")
    assert not done.returncode, done.stderr


def at(shared: Path, name: str) -> Installed:
    return Installed(shared / f"{name}-environment", shared / f"{name}-folder")


@contextmanager
def begun(shared: Path, name: str) -> Iterator[Installed | None]:
    """The environment for the first worker that comes, to fill it; None for the others."""
    with once(shared, name) as new:
        if new:
            at(shared, name).folder.mkdir()
        # The folder itself can't be the environment: programs there name their Python by its path.
        yield at(shared, name) if new else None


def add(installed: Installed, requirement: str, folder: Path, *more: str) -> None:
    uv("pip", "install", "--quiet", "--python", installed.python, f"{folder}/{requirement}", *more)
