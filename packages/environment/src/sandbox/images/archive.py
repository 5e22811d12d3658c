"""Archives of container images: their contents, and the form in which machines get them.

As in containerd, an archive is an OCI layout (``index.json``) or the output of ``docker save``
(``manifest.json``). Since version 25 Docker writes both into one archive; then the layout counts.
"""

import bz2
import gzip
import io
import json
import lzma
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from ccmfs_common.terminal import printable
from image.oci import CONTAINERD_NAME as NAME
from image.oci import INDEX_TYPE
from image.oci import REF_NAME as REFERENCE
from sandbox.errors import SandboxError

_INDEXES = frozenset({INDEX_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json"})
_SOUND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*")
"""Characters that an image reference may contain. Others could form an escape sequence for the terminal."""
_COMPRESSIONS: Mapping[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": zstandard.open,
}
"""Maps the first bytes of each compression format to the function that opens a compressed file."""


class NotAnArchive(SandboxError):
    """A file isn't an archive of container images, or machines can't use it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {printable(why)}")


@dataclass(frozen=True)
class Contents:
    """Contents of an archive."""

    names: tuple[str, ...]  # full names of the images, sorted: ``docker.io/library/app:1``
    architectures: frozenset[str]  # GOARCH of the images: ``amd64``


def full_name(name: str) -> str:
    """The full name for a short one, by the rules of the Go package ``distribution/reference``."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not (set(".:") & set(first) or first == "localhost" or first != first.lower()):
        name = f"docker.io/{name}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def read(path: Path, scratch: Path) -> Contents:
    """Read an archive's contents; decompresses it into an unnamed temporary file in ``scratch``."""
    with _opened(path, scratch) as tar:
        return _Reader(path, tar).contents()


def write_plain(path: Path, target: IO[bytes], scratch: Path) -> None:
    """Write the same images as an uncompressed archive with full names, for a node's air-gap folder.

    containerd keeps a short name of an OCI layout as it is, and Kubernetes looks for the full one.
    """
    with _opened(path, scratch) as tar, tarfile.open(fileobj=target, mode="w") as new:
        reader = _Reader(path, tar)
        index = json.dumps(reader.index_with_full_names()).encode() if reader.is_layout else b""
        for member in tar:
            if _plain(member.name) == "index.json":
                named = tarfile.TarInfo("index.json")
                named.size, named.mode = len(index), 0o644
                new.addfile(named, io.BytesIO(index))
            else:
                new.addfile(member, tar.extractfile(member) if member.isreg() else None)


class _Reader:
    """An open archive."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path, self._tar = path, tar
        self._members = {_plain(member.name): member for member in tar}
        self.is_layout = "index.json" in self._members

    def contents(self) -> Contents:
        if self.is_layout:
            entries = self._entries()
            names = [self._name(entry) for entry in entries]
            architectures = self._architectures(entries)
        elif "manifest.json" in self._members:
            images = [self._mapping(image) for image in self._list(self._json("manifest.json"))]
            tags = [self._list(image.get("RepoTags") or []) for image in images]
            names = [full_name(str(name)) for found in tags for name in found]
            configs = [self._mapping(self._json(_plain(str(image.get("Config"))))) for image in images]
            architectures = frozenset(str(config.get("architecture")) for config in configs)
        else:
            raise self._error(
                "not an archive of container images: index.json (OCI) and manifest.json (Docker) are missing"
            )
        if not names:
            raise self._error("no image in the archive has a name; save the image by its name, not by its ID")
        if wrong := [name for name in names if not _SOUND.fullmatch(name)]:
            raise self._error(f"{wrong[0]!r:.80} isn't the name of an image")
        return Contents(tuple(sorted(set(names))), architectures)

    def index_with_full_names(self) -> dict[str, Any]:
        """The layout's ``index.json`` with each image under its full name."""
        entries = [
            {**entry, "annotations": {**(entry.get("annotations") or {}), NAME: self._name(entry)}}
            for entry in self._entries()
        ]
        return {**self._mapping(self._json("index.json")), "manifests": entries}

    def _entries(self) -> list[Mapping[str, Any]]:
        index = self._mapping(self._json("index.json"))
        return [self._mapping(entry) for entry in self._list(index.get("manifests"))]

    def _name(self, entry: Mapping[str, Any]) -> str:
        annotations = self._mapping(entry.get("annotations") or {})
        name = str(annotations.get(NAME) or annotations.get(REFERENCE) or "")
        # A reference of this annotation may be only a tag, by the specification of OCI layouts.
        if not re.search("[/:@]", name):
            raise self._error(
                f"an image has {'only the tag ' + name if name else 'no name'}. Write the full name of the "
                f"image in the annotation {NAME}"
            )
        return full_name(name)

    def _architectures(self, entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        """The architectures of all images below some entries. Reads each blob once."""
        found: set[str] = set()
        read: set[str] = set()
        waiting = list(entries)
        while waiting:
            entry = waiting.pop()
            if isinstance(platform := entry.get("platform"), Mapping):
                found.add(str(platform.get("architecture")))
                continue
            blob = "blobs/" + str(entry.get("digest")).replace(":", "/", 1)
            if blob in read:
                continue
            read.add(blob)
            if blob not in self._members:
                raise self._error(f"incomplete: {blob} is missing")
            content = self._mapping(self._json(blob))
            if entry.get("mediaType") in _INDEXES or "manifests" in content:
                waiting += [self._mapping(below) for below in self._list(content.get("manifests"))]
            elif "config" in content:
                waiting.append(self._mapping(content["config"]))
            else:
                found.add(str(content.get("architecture")))
        return frozenset(found)

    def _json(self, name: str) -> Any:
        member = self._members.get(name)
        file = self._tar.extractfile(member) if member is not None and member.isreg() else None
        if member is None or file is None:
            raise self._error(f"incomplete: {name} is missing")
        try:
            return json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise self._error(f"{name} isn't JSON: {error}") from None

    def _mapping(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(f"not an OCI or Docker archive: {value!r:.80} must be an object")
        return value

    def _list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self._error(f"not an OCI or Docker archive: {value!r:.80} must be a list")
        return value

    def _error(self, why: str) -> NotAnArchive:
        return NotAnArchive(self._path, why)


@contextmanager
def _opened(path: Path, scratch: Path) -> Iterator[tarfile.TarFile]:
    """The archive as a tar file, decompressed."""
    if path.is_dir():
        raise NotAnArchive(
            path, f"a folder, not an archive; create the archive: tar -C {path} -cf image.tar ."
        )
    if path.exists() and not path.is_file():
        raise NotAnArchive(path, "not a regular file; save the archive in a regular file")
    try:
        with _decompressed(path, scratch) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system; errors of gzip and bzip2 have no number
        raise NotAnArchive(path, f"not a complete archive of container images: {error}") from None


@contextmanager
def _decompressed(path: Path, scratch: Path) -> Iterator[IO[bytes]]:
    """The file, decompressed once: to seek in a compressed one means to decompress it again."""
    with path.open("rb") as file:
        magic = file.read(8)
        file.seek(0)
        opening = next((opening for begin, opening in _COMPRESSIONS.items() if magic.startswith(begin)), None)
        if opening is None:
            yield file
            return
        with opening(file) as compressed, tempfile.TemporaryFile(dir=scratch) as plain:
            shutil.copyfileobj(compressed, plain)
            plain.seek(0)
            yield plain


def _plain(name: str) -> str:
    """A member's name without the ``./`` that ``tar -C folder .`` writes."""
    return name.removeprefix("./")
