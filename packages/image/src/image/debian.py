"""Debian packages unpacked in memory, and the few files that configuring them would have made."""

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from debian.debfile import DebFile

from image import authorities, recipe
from image.tree import Entry, File, Folder, Link, Tree, below

_MERGED = ("bin", "sbin", "lib", "lib64")
"""Each path is a link to the folder with the same name in /usr. So packages can use /bin or /usr/bin."""

_STATUS = "var/lib/dpkg/status.d"
"""The folder with one file for each installed package. Vulnerability scanners read these files. Distroless
images use the same folder."""

_PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nccm:x:{recipe.USER}:{recipe.USER}:ccm:/:/sbin/nologin\n"
_GROUP = f"root:x:0:\nccm:x:{recipe.USER}:\n"
_OWN = {
    "etc/passwd": File(_PASSWD.encode()),
    "etc/group": File(_GROUP.encode()),
    "usr/bin/python3": Link(posixpath.basename(recipe.PROGRAM)),
}


@dataclass(frozen=True)
class Package:
    """A Debian package."""

    name: str
    control: bytes  # its stanza in dpkg's status file
    files: Tree  # files and links, by path from the root


def unpack(content: bytes) -> Package:
    """Read a ``.deb`` file."""
    with DebFile(fileobj=io.BytesIO(content)) as deb:
        control = deb.debcontrol()
        status = f"Status: install ok unpacked\n{control.dump()}"
        return Package(control["Package"], status.encode(), _files(deb.data.tgz()))


def assemble(
    packages: Iterable[Package], is_kept: Callable[[str], bool] = recipe.is_kept, own: Tree = _OWN
) -> dict[str, Entry]:
    """The file system of an image's lowest layer; by default of the CCM's image."""
    everything: dict[str, Entry] = {}
    status: dict[str, Entry] = {}
    for package in packages:
        everything |= package.files
        status[f"{_STATUS}/{package.name}"] = File(package.control)
    kept = {path: entry for path, entry in everything.items() if is_kept(path)}
    return {**kept, **status, **_configured(everything), **own}


def _configured(tree: Tree) -> dict[str, Entry]:
    trusted = authorities.certificates(tree)
    return {
        recipe.CERTIFICATES: File(b"".join(trusted)),
        **below(recipe.AUTHORITIES, authorities.by_hash(trusted)),
        recipe.OPENSSL: Link(f"/{recipe.AUTHORITIES}"),
        **{name: Link(f"usr/{name}") for name in _MERGED},
        # links need what they lead to, and container runtimes mount the others
        **{name: Folder() for name in ("usr/sbin", "dev", "proc", "run", "sys")},
        "tmp": Folder(0o1777),
    }


def _files(tar: tarfile.TarFile) -> dict[str, Entry]:
    files: dict[str, Entry] = {}
    for member in tar:
        path = _path(member.name)
        if member.issym():
            files[path] = Link(member.linkname)
        elif member.islnk():
            files[path] = files[_path(member.linkname)]
        elif member.isreg():
            content = tar.extractfile(member)
            assert content is not None
            files[path] = File(content.read(), bool(member.mode & 0o100))
    return files


def _path(name: str) -> str:
    path = posixpath.normpath(f"/{name}").lstrip("/")
    return f"usr/{path}" if path.split("/")[0] in _MERGED and "/" in path else path
