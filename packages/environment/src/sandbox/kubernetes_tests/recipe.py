"""The images of Kubernetes' tests, built from Debian packages and the tests' own programs.

Upstream's come from a registry that a sandbox does not reach. These have the same names, the programs that
tests call in them, and the users, entry points and files that tests ask for. All but ``pause`` share one
layer of tools.
https://github.com/kubernetes/kubernetes/blob/v1.37.2/test/utils/image/manifest.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image.tree import Entry, File, Folder, Link

LOCK = Path(__file__).with_name("debian.lock")
"""The file with the versions and hashes of the Debian packages; ``./dev lock debian`` updates the file."""

ROOTS = (
    "bash",
    "bind9-dnsutils",
    "busybox-static",
    "curl",
    "iperf",
    "iproute2",
    "iptables",
    "libc-bin",
    "mount",
    "netcat-openbsd",
    "perl-base",
    "util-linux",
)
"""Debian packages with programs that the tests call. BusyBox provides all other commands."""

LEFT_OUT = (
    "base-files",
    "debconf",
    "debianutils",
    "dpkg",
    "gcc-14-base",
    "libaudit1",
    "libdb5.3t64",
    "liblastlog2-2",
    "libpam-modules",
    "libpam-modules-bin",
    "libpam-runtime",
    "libpam0g",
    "media-types",
    "openssl-provider-legacy",
)
"""Dependencies that tests don't need. These packages handle logins or configure other packages."""

_FOLDERS_LEFT_OUT = (
    "boot",
    "etc/init.d",
    "etc/pam.d",
    "etc/systemd",
    "usr/lib/systemd",
    "usr/share",
    "var/cache",
    "var/lib/dpkg",
    "var/log",
)

_USERS = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
nobody:x:65534:65534:nobody:/home:/bin/false
user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh
"""
_GROUP = """\
root:x:0:
daemon:x:1:
nogroup:x:65534:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
"""

_FOLDERS = ("dev", "etc", "home", "proc", "root", "run", "sys", "usr/lib64", "var")
_MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders that are symbolic links to folders in /usr, as in Debian."""

_LINKS = {
    # Debian's dash and busybox's own shell drop variables with a dash in their names, which Pods have.
    "usr/bin/sh": "bash",
    "usr/bin/nc": "nc.openbsd",
    "usr/local/bin/iperf": "/usr/bin/iperf",
    **{
        f"usr/sbin/{name}": "xtables-nft-multi"
        for family in ("iptables", "ip6tables")
        for name in (family, f"{family}-save", f"{family}-restore")
    },
}
"""Links that Debian creates when it configures packages. The upstream images contain the same links."""

REGISTRY = "var/registry/pause"
"""Path of the image that ``agnhost fake-registry-server`` serves as ``pause:testing``."""

_AGNHOST_PROGRAMS = {"agnhost": "agnhost", "coredns": "coredns"}
_AGNHOST = {"agnhost-2": Link("agnhost"), "uploads": Folder(), "home/user-defined-in-image": Folder()}
_WELCOME = b"<html><head><title>Welcome to nginx!</title></head><body></body></html>\n"
_NGINX = {
    "usr/share/nginx/html/index.html": File(_WELCOME),
    "usr/sbin/nginx": File(b"#!/bin/sh\nexec busybox httpd -f -vv -p 80 -h /usr/share/nginx/html\n", True),
}

_BUSYBOX_SHELL = b"""#!/usr/bin/bash
# busybox's own shell, as in upstream's image: a test expects its words. Debian's build of it drops variables
# with names that no shell could write; a Pod may have such, and bash keeps them.
while IFS= read -rd '' variable; do
  [[ ${variable%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || exec -a sh /usr/bin/bash "$@"
done < /proc/self/environ
exec -a "$0" /usr/bin/busybox "$@"
"""


@dataclass(frozen=True)
class TestImage:
    """One image."""

    __test__ = False  # for pytest

    names: Sequence[str]  # all that it is called, without the registry's host where that is the tests' own
    command: Sequence[str] = ("sh",)  # what it runs where a Pod says nothing, after its entry point
    entrypoint: Sequence[str] = ()  # program and arguments; none where Pods always name one
    user: str = ""  # numeric user; root when empty
    # By path in the image, names of programs of the toolchain.
    programs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Entry] = field(default_factory=dict)  # further entries
    tools: bool = True  # whether the tools are below them
    serves_pause: bool = False  # whether it holds the image ``pause`` for tests that pull
    large: bool = False  # whether only a few tests want it, and it has many bytes


def _agnhost(*names: str) -> TestImage:
    return TestImage(
        names, ("pause",), ("/agnhost",), programs=_AGNHOST_PROGRAMS, files=_AGNHOST, serves_pause=True
    )


def _update_demo(animal: str) -> TestImage:
    data = File(f'{{"image": "{animal}.jpg"}}\n'.encode())
    # a test reads both files out of the image, and looks for the words "Alpine Linux"
    system = File(b'ID=debian\nPRETTY_NAME="Debian packages in place of upstream\'s Alpine Linux"\n')
    return TestImage(
        (f"e2e-test-images/{animal}:1.8",),
        ("test-webserver",),
        ("/agnhost",),
        programs=_AGNHOST_PROGRAMS,
        files={"data.json": data, "etc/os-release": system},
    )


PAUSE = TestImage(
    tuple(f"pause:{version}" for version in ("3.10", "3.10.1", "3.10.2")),
    (),
    ("/pause",),
    programs={"pause": "pause"},
    tools=False,
)
IMAGES: Sequence[TestImage] = (
    PAUSE,
    _agnhost("e2e-test-images/agnhost:2.66.1"),
    _agnhost("e2e-test-images/agnhost:2.55"),
    TestImage(
        ("e2e-test-images/busybox:1.37.0-2",), files={"usr/bin/sh": File(_BUSYBOX_SHELL, executable=True)}
    ),
    TestImage(
        (
            "e2e-test-images/glibc-dns-testing:2.1.1",
            "e2e-test-images/ipc-utils:1.4",
            "e2e-test-images/perl:5.26",
            "build-image/distroless-iptables:v0.9.6",
        )
    ),
    TestImage(("e2e-test-images/nonroot:1.5",), user="1234"),
    TestImage(("e2e-test-images/nginx:1.27.0-2",), ("nginx",), files=_NGINX),
    TestImage(("e2e-test-images/nginx:1.28.0-2",), ("nginx",), files=_NGINX),
    _update_demo("nautilus"),
    _update_demo("kitten"),
    TestImage(("e2e-test-images/nonewprivs:1.4",), ("nnp",), programs={"usr/local/bin/nnp": "nonewprivs"}),
    TestImage(
        ("e2e-test-images/regression-issue-74839:1.5",),
        (),
        ("/regression-issue-74839",),
        programs={"regression-issue-74839": "regression-issue-74839"},
    ),
    TestImage(
        ("e2e-test-images/sample-apiserver:1.29.2",),
        (),
        ("/sample-apiserver",),
        programs={"sample-apiserver": "sample-apiserver"},
        large=True,
    ),
    TestImage(("etcd:3.7.0-0",), ("etcd",), programs={"usr/local/bin/etcd": "etcd"}, large=True),
)
HOST = "registry.k8s.io"
PULLED = ("e2e-test-images/agnhost:2.66.1", "e2e-test-images/kitten:1.8")
"""The registry needs these images, because tests of image volumes and Pod certificates always pull them."""
RUNS_AS_ROOT = frozenset({"usr/local/bin/nnp"})
"""Programs with the setuid bit. Tests check that Pods can forbid the use of the bit."""


def tools(debian: Mapping[str, Entry], applets: Sequence[str]) -> dict[str, Entry]:
    """The layer that the images share."""
    kept = {path: entry for path, entry in debian.items() if not path.startswith(_FOLDERS_LEFT_OUT)}
    kept |= {path: Link(target) for path, target in _LINKS.items()}
    there = {path.rpartition("/")[2] for path in kept if path.startswith(("usr/bin/", "usr/sbin/"))}
    return {
        **{f"usr/bin/{applet}": Link("busybox") for applet in applets if applet not in there},
        **kept,
        **{name: Link(f"usr/{name}") for name in _MERGED},
        **{name: Folder() for name in _FOLDERS},
        "tmp": Folder(0o1777),
        "etc/passwd": File(_USERS.encode()),
        "etc/group": File(_GROUP.encode()),
        "etc/nsswitch.conf": File(b"hosts: files dns\n"),
    }
