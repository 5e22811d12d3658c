"""A folder as a layer of an OCI image: the same files always give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layer:
    """A layer's file and what manifests say of it.

    Attributes:
        path: The compressed archive.
        digest: SHA-256 of the compressed archive, in hexadecimal digits.
        diff_id: The same of the archive itself.
        size: Bytes of the compressed archive.
    """

    path: Path
    digest: str
    diff_id: str
    size: int


class _Hashing(io.RawIOBase):
    """Passes what is written on, and hashes it."""

    def __init__(self, target: io.BufferedIOBase | gzip.GzipFile | io.BufferedWriter) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, content) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001 (a buffer)
        self.sha256.update(content)
        self.size += len(content)
        self._target.write(content)
        return len(content)


def write_layer(tree: Path, prefix: str, target: Path, epoch: int) -> Layer:
    """Packs a folder and notes its digests beside it.

    Args:
        tree: The folder.
        prefix: Where its content lies in the image, without a slash at either end; empty for the root.
        target: File to write.
        epoch: Time of every file, in seconds since 1970.
    """
    with target.open("wb") as file:
        packed = _Hashing(file)
        # a compressor's file name and time would make two equal layers different
        with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=6, mtime=0) as compressor:
            plain = _Hashing(compressor)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for folder in _parents(prefix):
                    tar.addfile(_normal(_directory(folder), epoch))
                for path in sorted(tree.rglob("*")):
                    _add(tar, path, f"{prefix}/{path.relative_to(tree)}".lstrip("/"), epoch)
    layer = Layer(target, packed.sha256.hexdigest(), plain.sha256.hexdigest(), packed.size)
    note = {name: value for name, value in asdict(layer).items() if name != "path"}
    target.with_suffix(".json").write_text(json.dumps(note))
    return layer


def read_layer(target: Path) -> Layer | None:
    """A layer written before, or nothing."""
    note = target.with_suffix(".json")
    if not target.is_file() or not note.is_file():
        return None
    return Layer(path=target, **json.loads(note.read_text()))


def _add(tar: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    member = tar.gettarinfo(path, name)
    if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return
    _normal(member, epoch)
    if member.islnk():
        # two names of one file: which of them comes first must not matter
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
    if member.isreg():
        with path.open("rb") as content:
            tar.addfile(member, content)
    else:
        tar.addfile(member)


def _normal(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = epoch
    if member.isdir():
        member.mode = 0o1777 if member.name == "tmp" else 0o755
    elif member.isreg():
        member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def _directory(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


def _parents(prefix: str) -> list[str]:
    parts = prefix.split("/") if prefix else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
