"""Builds the image layer by layer; what did not change is taken from the cache."""

import fcntl
import json
import os
import platform as host
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from image import bytecode, debian, recipe, sbom, wheels
from image.layer import Layer, make_layer
from image.mirror import open_mirror
from image.oci import Image, describe
from image.platforms import Platform, of_machine
from image.source import Source
from image.tree import Entry, File, below

KEPT = 24
"""Maximum number of layers in the cache, which all clones share. Each build after a change adds one layer."""

_KEPT_PACKAGES = 200  # of Debian; an image for one platform has 17
_KEPT_FOLDERS = 2  # with a Python that compiles


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The per-user cache of images, shared between clones."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ccm-from-scratch" / "ccm-image"


def build(source: Source, cache: Path, platforms: Sequence[Platform]) -> list[Image]:
    """Return the images of a tree, from the cache or newly built."""
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "build.lock"):
        builder = _Builder(source, cache)
        images = [builder.image(platform) for platform in platforms]
        tidy(cache)
        return images


def tidy(cache: Path) -> None:
    """Bound the cache, which the caller has locked: the most recently used entries stay."""
    packages = cache / "packages"
    forget_oldest([path for path in cache.iterdir() if path.is_dir() and path != packages], _KEPT_FOLDERS)
    forget_oldest([*packages.glob("*")], _KEPT_PACKAGES)
    layers = {path for path in cache.glob("*.tar*") if path.suffix != ".json"}
    forget_oldest([*layers], KEPT)
    described = {path.name.partition(".")[0] for path in layers if path.exists()}
    for note in cache.glob("*.json"):
        if note.name.partition(".")[0] not in described:
            note.unlink()


def forget_oldest(paths: Sequence[Path], keep: int) -> None:
    """Deletes all files and folders but those used last."""
    for path in sorted(paths, key=lambda path: path.stat().st_mtime)[:-keep]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class _Builder:
    """One build, alone in the cache."""

    def __init__(self, source: Source, cache: Path) -> None:
        self._source = source
        self._cache = cache

    def image(self, platform: Platform) -> Image:
        source = self._source
        layers = [
            self._layer(f"base-{source.base_key(platform)}", lambda: self._base(platform)),
            self._layer(f"deps-{source.dependencies_key(platform)}", lambda: self._dependencies(platform)),
            self._layer(f"app-{source.application_key()}", self._application),
        ]
        return describe(platform, layers, recipe.settings(), source.labels(), source.created)

    def _layer(self, name: str, make: Callable[[], dict[str, Entry]]) -> Layer:
        content, note = self._cache / f"{name}.tar.zst", self._cache / f"{name}.json"
        if content.is_file() and note.is_file():
            content.touch()  # in use: not one of the oldest
            return Layer(content.read_bytes(), json.loads(note.read_text())["diff_id"])
        layer = make_layer(make(), recipe.EPOCH)
        note.unlink(missing_ok=True)
        content.write_bytes(layer.content)
        note.write_text(json.dumps({"diff_id": layer.diff_id}))  # last: it says that the content is complete
        return layer

    def _base(self, platform: Platform) -> dict[str, Entry]:
        tree = self._debian(platform)
        library = {path: entry for path, entry in tree.items() if path.startswith(recipe.STDLIB)}
        return tree | self._compiler.compiled(library)

    def _dependencies(self, platform: Platform) -> dict[str, Entry]:
        source = self._source
        site = wheels.install(source.requirements, platform)
        project = (source.project.name, source.project.version)
        document = sbom.document(project, platform, source.lock.of(platform), site, recipe.EPOCH)
        return self._with_compiled(below(recipe.SITE, site)) | {recipe.SBOM: File(document)}

    def _application(self) -> dict[str, Entry]:
        return self._with_compiled(below(recipe.APPLICATION, self._source.application))

    def _with_compiled(self, tree: dict[str, Entry]) -> dict[str, Entry]:
        return tree | self._compiler.compiled(tree)

    def _debian(self, platform: Platform) -> dict[str, Entry]:
        mirror = open_mirror(self._cache / "packages")
        contents = mirror.packages(self._source.lock.of(platform))
        return debian.assemble(map(debian.unpack, contents))

    @cached_property
    def _compiler(self) -> bytecode.Compiler:
        own = of_machine(host.machine()) if host.system() == "Linux" else None
        if own is None:
            return bytecode.same_version(self._source.python)
        folder = self._cache / f"python-{self._source.base_key(own)}"
        if not folder.is_dir():
            bytecode.unfold(self._debian(own), folder)
        folder.touch()
        return bytecode.own_interpreter(folder, own)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time in a cache; a second one finds the result of the first."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
