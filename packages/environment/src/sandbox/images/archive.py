"""Archives of container images: what they hold, and the one form in which machines get them.

Two forms are known, as containerd knows them: an OCI layout (``index.json``), and what ``docker save`` writes
(``manifest.json``). Docker writes both into one archive since version 25; then the layout counts.
"""

from __future__ import annotations

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
from typing import IO, Any, cast

import zstandard

from image.oci import CONTAINERD_NAME as NAME
from image.oci import INDEX_TYPE
from image.oci import REF_NAME as REFERENCE
from sandbox.images.errors import NotAnArchive

_INDEXES = frozenset({INDEX_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json"})
_SOUND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*")
"""What a reference may consist of, in whatever order; a terminal does as it is told by anything else."""
_COMPRESSIONS: Mapping[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": zstandard.open,
}
"""What a compressed file begins with, and what opens it."""

_LONGEST_MAGIC = max(map(len, _COMPRESSIONS))
_CHUNK = 1024 * 1024
_MOST_JSON = 4 * 1024 * 1024
"""Bytes: as much as containerd reads of a manifest."""
_MOST_MEMBERS = 10_000
_PART_UNDONE, _PART_WRITTEN = 3, 2
"""Of what is free: a compressed archive lies there undone and as it is kept, and something has to be left."""


@dataclass(frozen=True)
class Contents:
    """What an archive holds.

    Attributes:
        names: As Kubernetes calls the images, sorted: ``docker.io/library/app:1``.
        architectures: For which there is an image, in Go's words: ``amd64``.
    """

    names: tuple[str, ...]
    architectures: frozenset[str]


def full_name(name: str) -> str:
    """What Kubernetes makes of a short name, by the rules of the package ``distribution/reference``."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not (set(".:") & set(first) or first == "localhost" or first != first.lower()):
        name = f"docker.io/{name}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def read(path: Path, scratch: Path) -> Contents:
    """What an archive holds.

    Args:
        path: The archive.
        scratch: Folder in which a compressed one is undone, into a file without a name, which is gone however
            this process ends.

    Raises:
        NotAnArchive: It is none, an image in it has no name, it is not whole, or there is no room for it.
        OSError: It can't be read.
    """
    with _opened(path, scratch) as tar:
        return _Reader(path, tar).contents()


def write_plain(path: Path, target: IO[bytes], scratch: Path) -> None:
    """The same images as an uncompressed archive in which all names are full, for a node's air-gap folder.

    A short name in an OCI layout is kept by containerd as it stands, and Kubernetes asks for the full one.

    Args:
        path: An archive that :func:`read` took.
        target: Where to, on the file system of ``scratch``.
        scratch: As for :func:`read`.

    Raises:
        NotAnArchive: It is not whole, or there is no room for it.
        OSError: It can't be read, or nothing can be written.
    """
    with (
        _opened(path, scratch) as tar,
        # A member may be sparse: a few bytes that say how many zeros they stand for.
        tarfile.open(fileobj=_bounded(target, path, scratch, _PART_WRITTEN), mode="w") as new,
    ):
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
    """One archive that is open."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        self._members: dict[str, tarfile.TarInfo] = {}
        for number, member in enumerate(tar, 1):
            if number > _MOST_MEMBERS:
                raise NotAnArchive(path, f"it has more than {_MOST_MEMBERS} files; an image has some hundred")
            self._members[_plain(member.name)] = member

    @property
    def is_layout(self) -> bool:
        """Whether it is an OCI layout."""
        return "index.json" in self._members

    def contents(self) -> Contents:
        if self.is_layout:
            entries = self._entries()
            names = [self._name(entry) for entry in entries]
            architectures = self._architectures(entries)
        elif "manifest.json" in self._members:
            images = [
                _mapping(self._path, image) for image in _sequence(self._path, self._json("manifest.json"))
            ]
            tags = [_sequence(self._path, image.get("RepoTags") or []) for image in images]
            names = [full_name(str(name)) for found in tags for name in found]
            configs = [self._json(_plain(str(image.get("Config")))) for image in images]
            architectures = frozenset(
                str(_mapping(self._path, config).get("architecture")) for config in configs
            )
        else:
            raise NotAnArchive(
                self._path,
                "no archive of container images: it has neither an index.json (OCI) nor a manifest.json "
                "(Docker)",
            )
        if not names:
            raise NotAnArchive(self._path, "no image in it has a name; save it by its name, not by its id")
        if wrong := [name for name in names if not _SOUND.fullmatch(name)]:
            raise NotAnArchive(
                self._path, f"an image in it is called {wrong[0]!r:.80}, which is no image's name"
            )
        return Contents(tuple(sorted(set(names))), architectures)

    def index_with_full_names(self) -> dict[str, Any]:
        """The layout's ``index.json`` with each image under its full name."""
        entries = [
            {**entry, "annotations": {**(entry.get("annotations") or {}), NAME: self._name(entry)}}
            for entry in self._entries()
        ]
        return {**_mapping(self._path, self._json("index.json")), "manifests": entries}

    def _entries(self) -> list[Mapping[str, Any]]:
        index = _mapping(self._path, self._json("index.json"))
        return [_mapping(self._path, entry) for entry in _sequence(self._path, index.get("manifests"))]

    def _name(self, entry: Mapping[str, Any]) -> str:
        annotations = _mapping(self._path, entry.get("annotations") or {})
        name = str(annotations.get(NAME) or annotations.get(REFERENCE) or "")
        # A reference of this annotation may be a tag alone, by the specification of OCI layouts.
        if not re.search("[/:@]", name):
            raise NotAnArchive(
                self._path,
                f"an image in it has {'the tag ' + name if name else 'no name'} and nothing else says what "
                f"it is called; write it with the annotation {NAME} and its full name",
            )
        return full_name(name)

    def _architectures(self, entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        """Of all images below some entries; each blob is read once, whatever names it."""
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
                raise NotAnArchive(self._path, f"not whole: {blob} is missing")
            content = _mapping(self._path, self._json(blob))
            if entry.get("mediaType") in _INDEXES or "manifests" in content:
                below = _sequence(self._path, content.get("manifests"))
                waiting += [_mapping(self._path, each) for each in below]
            elif "config" in content:
                waiting.append(_mapping(self._path, content["config"]))
            else:
                found.add(str(content.get("architecture")))
        return frozenset(found)

    def _json(self, name: str) -> Any:
        member = self._members.get(name)
        file = self._tar.extractfile(member) if member is not None and member.isreg() else None
        if member is None or file is None:
            raise NotAnArchive(self._path, f"not whole: {name} is missing")
        if member.size > _MOST_JSON:
            raise NotAnArchive(self._path, f"{name} in it has {member.size} bytes; {_MOST_JSON} are allowed")
        try:
            return json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise NotAnArchive(self._path, f"{name} in it is no JSON: {error}") from None


@contextmanager
def _opened(path: Path, scratch: Path) -> Iterator[tarfile.TarFile]:
    """The archive, whatever it is compressed with."""
    if path.is_dir():
        raise NotAnArchive(path, f"a folder; pack it: tar -C {path} -cf image.tar .")
    if path.exists() and not path.is_file():
        raise NotAnArchive(path, "no file on a disk, which is read more than once; save the archive as one")
    try:
        with (
            _uncompressed(path, scratch) as file,
            tarfile.open(fileobj=cast("IO[bytes]", _InPieces(file, path)), mode="r:") as tar,
        ):
            yield tar
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's; gzip and bzip2 have theirs without a number
        raise NotAnArchive(path, f"no archive of container images, or not whole: {error}") from None


@contextmanager
def _uncompressed(path: Path, scratch: Path) -> Iterator[IO[bytes]]:
    """The file, undone once: whoever reads here and there in a compressed one undoes it again and again."""
    with path.open("rb") as file:
        magic = file.read(_LONGEST_MAGIC)
        file.seek(0)
        opening = next(
            (opening for begins, opening in _COMPRESSIONS.items() if magic.startswith(begins)), None
        )
        if opening is None:
            yield file
            return
        with opening(file) as compressed, tempfile.TemporaryFile(dir=scratch) as plain:
            shutil.copyfileobj(compressed, _bounded(plain, path, scratch, _PART_UNDONE), _CHUNK)
            plain.seek(0)
            yield plain


def _bounded(file: IO[bytes], path: Path, scratch: Path, part: int) -> IO[bytes]:
    """A file to be written, as long as it takes no more than its part of what its disk has free.

    A few bytes can stand for more than any disk has: nobody's disk is filled before that is noticed.
    """
    most = shutil.disk_usage(scratch).free // part
    message = (
        f"it holds more than {most / 2**20:.0f} MiB uncompressed, more than the disk of {scratch} "
        "has room for; make room there, if you trust it"
    )
    return cast("IO[bytes]", _Bounded(file, most, NotAnArchive(path, message)))


class _Bounded:
    """The part of a file that writing needs, with an error once there is too much."""

    def __init__(self, file: IO[bytes], most: int, error: NotAnArchive) -> None:
        self._file, self._most, self._error = file, most, error
        self.tell = file.tell

    def write(self, data: bytes) -> int:
        if self.tell() + len(data) > self._most:
            raise self._error
        return self._file.write(data)


class _InPieces:
    """A file that is read, without more in memory at a time than anything in an archive needs.

    The header of a member says how long its name and its attributes are, and all of them are read at once.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _MOST_JSON:
            raise NotAnArchive(self._path, f"a header in it has {size} bytes; {_MOST_JSON} are allowed")
        return self._file.read(size)


def _plain(name: str) -> str:
    """A member's name without the ``./`` that ``tar -C folder .`` puts before it."""
    return name.removeprefix("./")


def _mapping(path: Path, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise NotAnArchive(
            path, f"not as its kind should be: an object is expected where it has {value!r:.80}"
        )
    return value


def _sequence(path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NotAnArchive(path, f"not as its kind should be: a list is expected where it has {value!r:.80}")
    return value
