"""Builds the image layer by layer; what did not change is taken from the cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.files import ROOT
from infra.oci import debian, recipe
from infra.oci.archive import describe, write_archive
from infra.oci.layer import Layer, read_layer, write_layer
from infra.oci.tools import check_machine, installer, run

_INSTALL_SECONDS = 600.0
_COMPILE_SECONDS = 300.0
ARCHIVES_KEPT = 10
"""Every change of the CCM makes another archive of 30 MB; several clones share the folder."""


@dataclass(frozen=True)
class Built:
    """An image in the cache: its name, and the file to import."""

    reference: str
    archive: Path


@dataclass(frozen=True)
class Source:
    """What the image is built from."""

    lock: bytes
    files: Mapping[str, bytes]
    epoch: int

    @property
    def keys(self) -> recipe.Keys:
        """Keys of this content."""
        return recipe.keys(self.lock, self.files, self.epoch)


def read_source(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> Source:
    """Reads the tree.

    Args:
        root: The clone.
        environment: SOURCE_DATE_EPOCH is heeded.
    """
    files = recipe.source_files(root / "ccm")
    files |= distribution_files((root / "pyproject.toml").read_text())
    epoch = int(environment.get("SOURCE_DATE_EPOCH") or recipe.DEFAULT_EPOCH)
    return Source((root / "ccm/requirements.lock").read_bytes(), files, epoch)


def distribution_files(pyproject: str) -> dict[str, bytes]:
    """The installed package's metadata: its entry points name the clouds."""
    project = tomllib.loads(pyproject)["project"]
    folder = f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())])
        for group, entries in project.get("entry-points", {}).items()
    ]
    return {
        f"{folder}/METADATA": metadata.encode(),
        f"{folder}/entry_points.txt": ("\n\n".join(groups) + "\n").encode(),
    }


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The per-user cache, shared between clones."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ccm-from-scratch"


def build(source: Source, cache: Path) -> Built:
    """Returns the image of a source tree, from the cache or newly built.

    Raises:
        ImageBuildError: This machine can't build it, or a step failed.
    """
    folder = cache / "ccm-image"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        return _Builder(source, cache, folder).image()


def forget_oldest(folder: Path, keep: int = ARCHIVES_KEPT) -> None:
    """Delete all archives but those used last; one that is wanted again is put together from its layers."""
    archives = sorted(folder.glob("*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-keep]:
        archive.unlink()


class _Builder:
    """One build, alone in the cache."""

    def __init__(self, source: Source, cache: Path, folder: Path) -> None:
        self._source = source
        self._keys = source.keys
        self._cache = cache
        self._folder = folder
        self._tree = folder / f"base-{self._keys.base}"

    def image(self) -> Built:
        names = [
            f"base-{self._keys.base}",
            f"deps-{self._keys.dependencies}",
            f"app-{self._keys.application}",
        ]
        makers = [self._base, self._dependencies, self._application]
        layers = [self._layer(name, maker) for name, maker in zip(names, makers, strict=True)]
        image = describe(recipe.REPOSITORY, layers, recipe.image_config(), self._source.epoch)
        archive = self._folder / f"{self._keys.image}.tar"
        if archive.is_file():
            archive.touch()  # in use: not one of the oldest
        else:
            partial = archive.with_suffix(".partial")
            write_archive(image, layers, partial)
            partial.replace(archive)
            forget_oldest(self._folder)
        return Built(image.reference, archive)

    def _layer(self, name: str, make) -> Layer:  # noqa: ANN001 (a method of ours)
        target = self._folder / f"{name}.tar.gz"
        found = read_layer(target)
        if found:
            return found
        if not self._tree.is_dir():
            self._make_tree()
        return make(target)

    def _make_tree(self) -> None:
        check_machine()
        partial = self._tree.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        debian.make_tree(partial)
        self._compile(partial, f"usr/lib/python{recipe.PYTHON}")
        partial.replace(self._tree)

    def _base(self, target: Path) -> Layer:
        return write_layer(self._tree, "", target, self._source.epoch)

    def _dependencies(self, target: Path) -> Layer:
        with self._inside(recipe.SITE) as site, tempfile.NamedTemporaryFile(suffix=".txt") as lock:
            lock.write(self._source.lock)
            lock.flush()
            command = [*installer(self._cache), f"--python-version={recipe.PYTHON}", "--only-binary=:all:"]
            command += ["--require-hashes", "--no-deps", f"--target={site}", "-r", lock.name]
            run("installing the CCM's dependencies", command, _INSTALL_SECONDS)
            remove_dead_weight(site)
            self._compile(self._tree, recipe.SITE)
            return write_layer(site, recipe.SITE, target, self._source.epoch)

    def _application(self, target: Path) -> Layer:
        with self._inside(recipe.APPLICATION) as folder:
            write_application(self._source, folder)
            self._compile(self._tree, recipe.APPLICATION)
            return write_layer(folder, recipe.APPLICATION, target, self._source.epoch)

    @contextmanager
    def _inside(self, path: str) -> Iterator[Path]:
        """A folder in the Debian tree, whose Python compiles what is in it; gone afterwards."""
        folder = self._tree / path
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def _compile(self, tree: Path, path: str) -> None:
        # hashes instead of times in the compiled files, and never compared: reproducible, and a faster start
        options = ["-q", "-j1", "--invalidation-mode=unchecked-hash"]
        command = [
            "chroot",
            str(tree),
            f"/usr/bin/python{recipe.PYTHON}",
            "-m",
            "compileall",
            *options,
            f"/{path}",
        ]
        run(f"compiling {path}", command, _COMPILE_SECONDS)


def write_application(source: Source, folder: Path) -> None:
    """Writes our own package into a folder, as if it had been installed there."""
    for path, content in source.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def remove_dead_weight(folder: Path) -> None:
    """Removes what recipe.is_dead_weight names, and the folders that are empty then."""
    debian.remove_all_but(folder, lambda path: not recipe.is_dead_weight(path))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time on this machine; whoever comes second finds everything in the cache."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
