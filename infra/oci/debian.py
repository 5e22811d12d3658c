"""The image's lowest layer: Python and root certificates out of Debian packages, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from infra.oci import recipe
from infra.oci.tools import run

_SECONDS = 900.0
_MERGED = ("bin", "sbin", "lib", "lib64")
_LEFT_OUT = (
    "usr/sbin",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "var/cache",
    "var/lib/apt",
    "var/log",
    "dev",
)
_PACKAGES = "var/lib/dpkg/status.d"
_NOTE_PACKAGES = (
    f'mkdir -p "$1"/{_PACKAGES}; for file in "$1"/var/cache/apt/archives/*.deb; do '
    f'dpkg-deb --field "$file" > "$1"/{_PACKAGES}/"$(dpkg-deb --field "$file" Package)" || exit 1; done'
)
"""A shell command: which packages are in the image, where scanners of images look for it. Debian's own list
stays empty where packages are only unpacked; one file for each is the way of distroless images. Of some of
them only the licence is kept."""
_PASSWD = "root:x:0:0:root:/:/sbin/nologin\nccm:x:{user}:{user}:ccm:/:/sbin/nologin\n"  # noqa: S105 (no password)
_GROUP = "root:x:0:\nccm:x:{user}:\n"


def make_tree(target: Path) -> None:
    """Unpacks the packages without configuring them, and adds the few files that configuring would have made.

    Raises:
        ImageBuildError: Mmdebstrap failed.
    """
    folders = " ".join(f'"$1"/usr/{name}' for name in _MERGED)
    links = "; ".join(f'ln -s usr/{name} "$1"/{name}' for name in _MERGED)
    command = ["mmdebstrap", "--mode=root", "--variant=extract", "--format=directory"]
    command += [f"--setup-hook=mkdir -p {folders}; {links}", f"--extract-hook={_NOTE_PACKAGES}"]
    command += [f"--include={','.join(recipe.PACKAGES)}"]
    command += [f"--aptopt={line}" for line in _proxies()]
    command += [recipe.SUITE, str(target), *_mirrors()]
    run("unpacking Debian's Python", command, _SECONDS)
    finish(target)


def finish(tree: Path) -> None:
    """Users, certificates, and away with what the image doesn't need; licences and the package list stay."""
    certificates = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = tree / recipe.CERTIFICATES
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text().rstrip() + "\n" for path in certificates))
    for path in _LEFT_OUT:
        shutil.rmtree(tree / path, ignore_errors=True)
    remove_all_but(tree / "usr/share", is_licence)
    remove_all_but(tree / "var/lib/dpkg", lambda path: path.startswith("status.d/"))
    for program in (tree / "usr/bin").iterdir():
        if program.name != f"python{recipe.PYTHON}":
            program.unlink()
    (tree / "usr/sbin").mkdir()
    stdlib = tree / f"usr/lib/python{recipe.PYTHON}"
    for name in recipe.STDLIB_LEFT_OUT:
        shutil.rmtree(stdlib / name, ignore_errors=True)
    (tree / "etc/passwd").write_text(_PASSWD.format(user=recipe.USER))
    (tree / "etc/group").write_text(_GROUP.format(user=recipe.USER))
    # container runtimes mount these
    for name in ("dev", "proc", "sys", "tmp"):
        (tree / name).mkdir(exist_ok=True)


def is_licence(path: str) -> bool:
    """Whether a file below /usr/share, by path relative to it, is the licence of a package, or one they name.

    Packages of one source may have a link to the documentation of one of them.
    """
    parts = path.split("/")
    return parts[0] == "common-licenses" or (
        parts[0] == "doc" and (len(parts) == 2 or parts[-1] == "copyright")
    )


def remove_all_but(folder: Path, stays: Callable[[str], bool]) -> None:
    """Removes files, links, and the folders that are empty then.

    Args:
        folder: Where.
        stays: Whether a path, relative to the folder, is kept.
    """
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not stays(str(path.relative_to(folder))):
            path.unlink()


def suite_mirrors(sources: str) -> list[str]:
    """Lines for mmdebstrap out of the host's deb822 sources; empty when none is for our suite."""
    lines = []
    for stanza in re.split(r"\n\s*\n", sources):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        suites = [suite for suite in fields.get("Suites", "").split() if suite.startswith(recipe.SUITE)]
        if "deb" in fields.get("Types", "").split():
            components = fields.get("Components", "main")
            lines += [f"deb {uri} {suite} {components}" for uri in fields["URIs"].split() for suite in suites]
    return lines


def _mirrors() -> list[str]:
    """The host's own mirrors where it has our suite; otherwise mmdebstrap's default."""
    files = sorted(Path("/etc/apt/sources.list.d").glob("debian*.sources"))
    return suite_mirrors("\n\n".join(path.read_text() for path in files))


def _proxies() -> list[str]:
    """How the host's apt reaches its mirrors."""
    if not shutil.which("apt-config"):
        return []
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True, timeout=30)
    wanted = re.compile(
        r'^Acquire::(https?::Proxy\S*|Retries|Check-Valid-Until|Check-Date) "[^"]+";$', re.IGNORECASE
    )
    return [line for line in dump.stdout.splitlines() if wanted.match(line)]
