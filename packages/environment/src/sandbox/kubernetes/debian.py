"""A plain Debian tree by mmdebstrap, from the mirrors that the host's apt uses."""

import re
import shutil
import subprocess
from pathlib import Path

from sandbox.kubernetes.processes import Progress, require, run

SUITE = "bookworm"

BUSYBOX = Path("bin/busybox")
"""Path of the statically linked busybox in the Debian file tree."""

PACKAGES = (
    "busybox-static",  # becomes the image in which the storage's folders are made
    "ca-certificates",
    "cloud-init",
    "conntrack",
    "curl",
    "e2fsprogs",  # formats volumes
    "ethtool",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "less",
    "mount",
    "netbase",  # /etc/protocols, without which kube-proxy breaks at its next full resync
    "nftables",
    "openssh-server",
    "openssl",
    "procps",
    "python3",
    "systemd",
    "systemd-sysv",
)

_EXCLUDED = ("doc/*", "info/*", "lintian/*", "locale/*", "man/*")


def applets(busybox: Path) -> list[str]:
    """What a busybox can be called, besides its own name; it runs outside of its tree, too."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=20)
    return [name for name in listed.stdout.split() if name != "busybox"]


def suite_sources(text: str, suite: str) -> str:
    """Of an apt source file, the entries for a Debian suite and its updates, in the same format."""
    kept = []
    for stanza in re.split(r"\n\s*\n", text):
        if re.search(r"^Types:", stanza, re.MULTILINE | re.IGNORECASE):
            suites = re.search(r"^Suites:(.*)$", stanza, re.MULTILINE | re.IGNORECASE)
            if suites and any(_is_of(name, suite) for name in suites[1].split()):
                kept.append("\n".join(line for line in stanza.splitlines() if not line.startswith("#")))
        else:
            lines = stanza.splitlines()
            entries = [
                found[1] for line in lines if (found := _ONE_LINE.match(line)) and _is_of(found[2], suite)
            ]
            kept += ["\n".join(entries)] if entries else []
    return "\n\n".join(kept) + "\n" if kept else ""


_ONE_LINE = re.compile(r"^\s*(deb\s+(?:\[[^]]*\]\s+)?\S+\s+(\S+)\s+\S.*)$")


def _is_of(name: str, suite: str) -> bool:
    return name in {suite, f"{suite}-updates", f"{suite}-security"}


def host_sources(folder: Path = Path("/etc/apt")) -> str:
    """The host's entries for our suite; empty on another distribution, where mmdebstrap's default serves."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.sources"))]
    texts = [suite_sources(path.read_text(), SUITE) for path in files if path.is_file()]
    return "\n".join(text for text in texts if text)


def host_options() -> list[str]:
    """The host's settings for reaching its mirrors: proxies, retries, whether old indexes are believed."""
    if shutil.which("apt-config") is None:
        return []
    dump = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    wanted = re.compile(
        r'^Acquire::(?:https?::Proxy\S*|Retries|Check-Valid-Until|Check-Date) "[^"]+";$', re.IGNORECASE
    )
    return [f"--aptopt={line}" for line in dump.splitlines() if wanted.match(line)]


def build_debian(target: Path, progress: Progress) -> None:
    """Make the tree (two minutes)."""
    command = [require("mmdebstrap", "mmdebstrap"), "--mode=root", "--variant=apt", "--format=directory"]
    command += [f"--dpkgopt=path-exclude=/usr/share/{path}" for path in _EXCLUDED]
    command += [
        '--aptopt=APT::Install-Recommends "false"',
        *host_options(),
        f"--include={','.join(PACKAGES)}",
    ]
    sources = host_sources()
    listing = target.with_suffix(".sources")
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text(sources)
    command += [SUITE, str(target), *([str(listing)] if sources else [])]
    run(f"machine image: Debian {SUITE}", command, progress=progress)
    listing.unlink()
    # Keys of this one installation must not be every machine's.
    for key in (target / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    shutil.rmtree(target / "var/lib/apt/lists", ignore_errors=True)
