"""The CCM's Python dependencies, as wheels for any kind of server, whatever this machine is."""

import tempfile
from pathlib import Path

from uv import find_uv_bin

from image import recipe
from image.platforms import Platform
from image.tools import run
from image.tree import Entry, File

_SECONDS = 600.0


def install(requirements: bytes, platform: Platform) -> dict[str, Entry]:
    """What the image needs of the pinned dependencies, by path below their folder."""
    with tempfile.TemporaryDirectory() as place:
        lock, folder = Path(place) / "requirements.txt", Path(place) / "site"
        lock.write_bytes(requirements)
        command = [find_uv_bin(), "pip", "install", "--quiet", "--link-mode=copy"]
        command += [f"--python-platform={platform.wheels}", f"--python-version={recipe.PYTHON}"]
        command += ["--only-binary=:all:", "--require-hashes", "--no-deps", "--no-compile-bytecode"]
        command += [f"--target={folder}", f"--requirement={lock}"]
        run(f"installing the CCM's dependencies for {platform.name}", command, _SECONDS)
        return read(folder)


def read(folder: Path) -> dict[str, Entry]:
    """The files of a folder that the image needs."""
    files = ((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file())
    return {
        name: File(path.read_bytes(), executable=False)
        for name, path in files
        if not recipe.is_dead_weight(name)
    }
