"""What a user installs: the wheel, built as a user's tool builds it, in environments outside of the tree."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from uv import find_uv_bin

TREE = Path(__file__).resolve().parents[2]
SECONDS = 600


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it.

    Attributes:
        root: Of the environment.
        folder: Where commands are run: nothing of the tree is there.
    """

    root: Path
    folder: Path

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
        """Run a command, and return what it said, both streams in one."""
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


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id) -> Path:
    """A folder that all workers of this run have."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


def uv(*arguments: str) -> None:
    done = subprocess.run(
        [find_uv_bin(), *arguments], capture_output=True, text=True, check=False, timeout=SECONDS, cwd="/"
    )
    assert not done.returncode, done.stderr


@pytest.fixture(scope="session")
def packages(shared) -> Path:
    """The folder with the wheel and the source distribution; the first is made from the second."""
    with once(shared, "packages") as new:
        if new:
            uv("build", "--quiet", "--out-dir", str(new), str(TREE))
    return shared / "packages"


@pytest.fixture(scope="session")
def wheel(packages) -> Path:
    (found,) = packages.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def plain(shared, wheel) -> Installed:
    """The wheel without any extra."""
    with begun(shared, "plain") as installed:
        if installed:
            uv("venv", "--quiet", str(installed.root))
            add(installed, wheel.name, wheel.parent)
    return at(shared, "plain")


@pytest.fixture(scope="session")
def full(shared, wheel, guide) -> Installed:
    """The wheel as the guide has it installed, and what the tests here need besides."""
    with begun(shared, "full") as installed:
        if installed:
            uv("venv", "--quiet", "--seed", str(installed.root))
            (installed.folder / "dist").mkdir()
            (installed.folder / "dist" / wheel.name).symlink_to(wheel)
            (line,) = (line for line in guide.typed if line.startswith("pip install") and "…" not in line)
            said = installed.run("sh", "-c", line)
            assert not said.returncode, said.stdout
            shutil.rmtree(installed.folder / "dist")
            add(installed, f"{wheel.name}[conformance,tracing]", wheel.parent, "pytest-xdist")
    return at(shared, "full")


@pytest.fixture(scope="session")
def with_pulumi(shared, wheel) -> Installed:
    """The wheel with the components of the Pulumi program."""
    with begun(shared, "pulumi") as installed:
        if installed:
            uv("venv", "--quiet", str(installed.root))
            add(installed, f"{wheel.name}[pulumi]", wheel.parent)
    return at(shared, "pulumi")


@dataclass(frozen=True)
class Guide:
    """docs/guides/testing-with-the-emulator.md.

    Attributes:
        examples: Its Python, as one file.
        typed: Its command lines.
    """

    examples: str
    typed: list[str]


@pytest.fixture(scope="session")
def guide() -> Guide:
    text = (TREE / "docs/guides/testing-with-the-emulator.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    typed = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return Guide("".join(examples), "".join(typed).splitlines())


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
