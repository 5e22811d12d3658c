"""Python files compiled ahead of time, by exactly the Python that is in the image.

Compiled code is the same for all processors, but differs between versions of Python, even between 3.13.0 and
3.13.5. On Linux the interpreter of the image itself compiles, out of a plain folder and through the image's
own dynamic loader: that needs neither root nor anything of the host. Elsewhere uv finds or fetches a Python
of the same version.

Docstrings of third-party code are left out: they take 2 MiB of the process's memory.
"""

import io
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from image import recipe
from image.layer import archive, extract
from image.platforms import Platform
from image.tools import run
from image.tree import Entry, File, Folder, Tree

_SECONDS = 300.0
_PROGRAM = Path(__file__).with_name("compile_here.py")
_OPTIONS = ("-I", "-S", "-B")


@dataclass(frozen=True)
class Compiler:
    """How a Python of the image's version is started on this machine."""

    command: tuple[str, ...]  # interpreter, without its arguments

    def compiled(self, tree: Tree) -> dict[str, Entry]:
        """Compile a tree's Python files; tracebacks show their paths from the image's root."""
        sources = {
            path: entry for path, entry in tree.items() if isinstance(entry, File) and path.endswith(".py")
        }
        command = [*self.command, *_OPTIONS, str(_PROGRAM), recipe.APPLICATION]
        done = run("compiling Python files", command, _SECONDS, archive(sources, epoch=0))
        with tarfile.open(fileobj=io.BytesIO(done)) as tar:
            return {member.name: File(_content(tar, member)) for member in tar}


def own_interpreter(folder: Path, platform: Platform) -> Compiler:
    """The image's Python on Linux, in a folder that :func:`unfold` made of the image's lowest layer."""
    libraries = folder / "usr/lib" / platform.triplet
    return Compiler(
        (str(folder / platform.loader), "--library-path", str(libraries), str(folder / recipe.PROGRAM))
    )


def same_version(debian_version: str) -> Compiler:
    """A Python of the image's version, such as ``3.13.5-2+deb13u5``, found or downloaded by uv."""
    version = debian_version.partition("-")[0]
    return Compiler((find_uv_bin(), "run", "--no-project", "--quiet", "--python", version, "--", "python"))


def unfold(tree: Tree, folder: Path) -> None:
    """Write a tree into a new folder: all of it, or nothing. An existing folder is kept."""
    if folder.is_dir():
        return
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    files = {path: entry for path, entry in tree.items() if not isinstance(entry, Folder)}
    extract(archive(files, epoch=0), partial)
    partial.replace(folder)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()
