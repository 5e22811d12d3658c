"""A second image, for looking around in a cluster: a shell, curl, dig, ip, tcpdump.

It is made of Debian's packages as the CCM's image is, and pinned in ``image/toolbox.lock``. BusyBox has the
basic commands. Its shell isn't used, because that shell runs BusyBox's ``ip`` instead of iproute2's.
"""

from pathlib import Path
from typing import IO

from image import debian, lockfile
from image.layer import make_layer
from image.mirror import Mirror
from image.oci import describe, write_layout
from image.platforms import Platform
from image.recipe import EPOCH
from image.source import digest
from image.tree import Entry, File, Link

NAME = "ccm-from-scratch.local/tools:1"
LOCK = Path(__file__).with_name("toolbox.lock")
ROOTS = (
    "bind9-dnsutils",
    "busybox-static",
    "ca-certificates",
    "curl",
    "dash",
    "iproute2",
    "netbase",
    "tcpdump",
)
LEFT_OUT = {
    "adduser": "creates users while a package is configured",
    "debconf": "asks questions while a package is configured",
    "debianutils": "scripts that configure packages",
    "dpkg": "installs packages",
    "libcap2-bin": "commands for Linux capabilities",
    "openssl": "contains the command `openssl`, which the image doesn't need. curl needs only the library",
    "openssl-provider-legacy": "obsolete ciphers",
    "perl-base": "for scripts",
    "readline-common": "documents",
    "sensible-utils": "for scripts",
    "tar": "BusyBox has one",
}
"""Dependencies that the image doesn't contain, and the purpose of each dependency."""

_PROGRAMS = frozenset({"bridge", "busybox", "curl", "dash", "dig", "ip", "nstat", "ss", "tc", "tcpdump"})
_APPLETS = """
awk base64 basename cat chmod chown clear cp cut date dd df diff dirname du echo egrep env expr
false find free grep gunzip gzip head hexdump hostname id kill less ln ls md5sum mkdir mktemp more
mount mv nc netstat nproc nslookup od ping ping6 printf ps pwd readlink realpath rm rmdir route sed
seq sha256sum sleep sort stat strings tail tar tee telnet test time timeout top touch tr traceroute
true uname uniq vi watch wc wget which whoami xargs yes zcat
"""
"""Commands of BusyBox, except the commands that the packages in ROOTS provide."""

_FOLDERS_KEPT = ("etc/", "usr/share/iproute2/")
_LIBRARIES_LEFT_OUT = frozenset({"audit", "engines-3", "gconv", "ossl-modules", "perl-base", "tc"})
_SETTINGS = {
    "WorkingDir": "/",
    # 'kubectl run … -- curl …' takes its place; the trap ends a Pod at once instead of after 30 seconds
    "Cmd": ["sh", "-c", "trap 'exit 0' TERM INT; sleep 2147483647 & wait"],
    "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
}


def key() -> str:
    """Changes when the image does."""
    parts = (Path(__file__), LOCK, Path(debian.__file__))
    return digest(path.read_bytes() for path in parts)


def write(mirror: Mirror, platform: Platform, target: IO[bytes]) -> None:
    """Make the image and write it as an OCI layout in a tar."""
    contents = mirror.packages(lockfile.read(LOCK).of(platform))
    tree = debian.assemble(map(debian.unpack, contents), is_kept, _own())
    image = describe(platform, [make_layer(tree, EPOCH)], _SETTINGS, {}, EPOCH)
    write_layout({NAME: image.manifest}, image.blobs, target)


def is_kept(path: str) -> bool:
    """Whether a file of a Debian package, by its path from the root, belongs in the image."""
    parts = path.split("/")
    if parts[:2] in (["usr", "bin"], ["usr", "sbin"]):
        return parts[-1] in _PROGRAMS
    if parts[:3] == ["usr", "share", "doc"]:
        return parts[-1] == "copyright"
    if parts[:2] in (["usr", "lib"], ["usr", "lib64"]):
        return ".so" in parts[-1] and not _LIBRARIES_LEFT_OUT & set(parts)
    return path.startswith(_FOLDERS_KEPT)


def _own() -> dict[str, Entry]:
    return {
        "etc/passwd": File(b"root:x:0:0:root:/:/bin/sh\n"),
        "etc/group": File(b"root:x:0:\n"),
        "usr/bin/sh": Link("dash"),
        **{f"usr/bin/{applet}": Link("busybox") for applet in _APPLETS.split()},
    }
