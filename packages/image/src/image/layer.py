"""A tree as a layer of an OCI image: the same files always give the same bytes.

Compressed with Zstandard, by the library that the locked package ``zstandard`` brings along: the same bytes
on every machine. Python's own zlib is the system's, and its output differs between systems.
"""

import hashlib
import io
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path

import zstandard

from image.tree import Entry, File, Folder, Link, Tree, parents

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd"
LEVEL = 9
"""Zstandard's compression level. With level 15, layers are 2 % smaller, but compression takes eight times as
long."""


@dataclass(frozen=True)
class Layer:
    """A layer and what manifests say of it."""

    content: bytes  # compressed archive
    diff_id: str  # SHA-256 of the archive itself, in hexadecimal digits


def make_layer(tree: Tree, epoch: int) -> Layer:
    """Pack the files that a layer adds; ``epoch`` is the time of every file, in seconds since 1970."""
    plain = archive(tree, epoch)
    return Layer(zstandard.ZstdCompressor(level=LEVEL).compress(plain), hashlib.sha256(plain).hexdigest())


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a compressed layer of ours over the content of the image's root folder."""
    extract(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content)).read(), folder)


def extract(plain: bytes, folder: Path) -> None:
    """Write the files of an uncompressed :func:`archive` into a folder."""
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        # as an attribute: the Python of Debian 12 has no filters, and takes no argument for them
        tar.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        tar.extractall(folder)  # noqa: S202 - made by us


def archive(tree: Tree, epoch: int) -> bytes:
    """A tree as a tar archive, by path; every file belongs to root."""
    folders = {folder: Folder() for path in tree for folder in parents(path)}
    everything: dict[str, Entry] = {**folders, **tree}
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(everything):
            member, content = _member(path, everything[path])
            member.mtime = epoch
            tar.addfile(member, content)
    return target.getvalue()


def _member(path: str, entry: Entry) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    member = tarfile.TarInfo(path)
    match entry:
        case File(content, executable, as_root):
            member.size, member.mode = len(content), 0o755 if executable else 0o644
            member.mode |= stat.S_ISUID if as_root else 0
            return member, io.BytesIO(content)
        case Link(target):
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, 0o777
        case Folder(mode):
            member.type, member.mode = tarfile.DIRTYPE, mode
    return member, None
