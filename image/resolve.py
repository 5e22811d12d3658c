"""Moves the pins of Debian packages on: the newest versions of Debian's signed lists, for ``./dev lock``."""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from debian.deb822 import Packages, Release
from debian.debian_support import Version

from image import recipe
from image.errors import ContentError, LockFileError, MirrorError, SignatureError, ToolError
from image.lockfile import Lock, Pin
from image.mirror import Mirror
from image.platforms import PLATFORMS, Platform

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_SECONDS = 60.0

Verify = Callable[[bytes], bytes]
"""Gives the part of a signed text that a trusted key has signed. Raises SignatureError."""

Candidates = Mapping[str, Packages]
"""By name, the newest version of each package that was asked for."""


@dataclass(frozen=True)
class Index:
    """A Debian list of packages for one platform: their stanzas, by name, not read yet."""

    stanzas: Mapping[str, tuple[str, ...]]

    def newest(self, name: str) -> Packages | None:
        """The newest version of a package, or None where there is none."""
        found = [Packages(stanza) for stanza in self.stanzas.get(name, ())]
        return max(found, key=lambda package: Version(package["Version"]), default=None)


def newest_pins(mirror: Mirror, verify: Verify) -> list[Pin]:
    """The image's packages in their newest versions, of all platforms.

    Raises:
        ImageError: A list can't be had, is not signed, or lacks a package.
    """
    suites = [*_suites(mirror, verify)]
    pins = []
    for platform in PLATFORMS:
        texts = [text for suite in suites for text in _lists(mirror, *suite, platform)]
        chosen = closure(read_index(texts), recipe.ROOTS, recipe.LEFT_OUT)
        pins += [_pin(package, platform) for package in chosen.values()]
    return pins


def closure(index: Index, roots: Iterable[str], left_out: Collection[str]) -> dict[str, Packages]:
    """Packages and all that they depend on; of alternatives the first.

    Args:
        index: What there is.
        roots: Names of packages.
        left_out: Names of dependencies that are not followed.

    Raises:
        LockFileError: A package isn't there.
    """
    chosen: dict[str, Packages] = {}
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name in chosen or name in left_out:
            continue
        package = index.newest(name)
        if package is None:
            raise LockFileError(f"Debian has no package {name} for this platform; image/recipe.py names it")
        chosen[name] = package
        for field in ("pre-depends", "depends"):
            waiting += [alternatives[0]["name"] for alternatives in package.relations[field]]
    return chosen


def read_index(texts: Iterable[str]) -> Index:
    """Several of Debian's files ``Packages`` as one."""
    stanzas: dict[str, tuple[str, ...]] = {}
    for text in texts:
        for stanza in text.split("\n\n"):
            name = re.match(r"\s*Package: (\S+)", stanza)
            if name:
                stanzas[name[1]] = (*stanzas.get(name[1], ()), stanza)
    return Index(stanzas)


def gone_back(before: Lock, after: Iterable[Pin]) -> list[Pin]:
    """Of new pins those that are older than the old ones: a mirror that lags behind, or wants us to."""
    had = {(pin.name, pin.architecture): Version(pin.version) for pin in before.pins}
    return [
        pin for pin in after if Version(pin.version) < had.get((pin.name, pin.architecture), Version("0"))
    ]


def gpgv() -> Verify:
    """Verifies with Debian's own keyring, by GnuPG.

    Raises:
        ToolError: Either is missing.
    """
    program = shutil.which("gpgv")
    keyring = next((path for path in KEYRINGS if path.is_file()), None)
    if program is None or keyring is None:
        raise ToolError(
            "gpgv and Debian's keyring are needed to believe its lists of packages; on Debian and Ubuntu "
            "type: sudo apt-get install gpgv debian-archive-keyring"
        )

    def verify(signed: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(signed)
            file.flush()
            command = [program, "--keyring", str(keyring), "--output", "-", file.name]
            done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise SignatureError(f"Debian's keys did not sign this list of packages: {said}")
        return done.stdout

    return verify


def _suites(mirror: Mirror, verify: Verify) -> Iterator[tuple[str, Release]]:
    for suite in (recipe.SUITE, f"{recipe.SUITE}-updates", f"{recipe.SUITE}-security"):
        signed = mirror.index(f"dists/{suite}/InRelease")
        if signed is None:
            raise MirrorError(f"no archive of {', '.join(mirror.roots)} has {suite}")
        release = Release(verify(signed))
        if release.get("Codename") != suite:  # else a mirror could give old or coming packages for these
            raise SignatureError(f"what the mirror has as {suite} is Debian's {release.get('Codename')}")
        yield suite, release


def _lists(mirror: Mirror, suite: str, release: Release, platform: Platform) -> Iterator[str]:
    name = f"main/binary-{platform.name}/Packages.xz"
    wanted = next((entry["sha256"] for entry in release["SHA256"] if entry["name"] == name), None)
    if wanted is None:
        raise MirrorError(f"Debian's {suite} lists no packages for {platform.name}")
    content = mirror.index(f"dists/{suite}/{name}")
    found = hashlib.sha256(content or b"").hexdigest()
    if content is None or found != wanted:
        raise ContentError(f"the list of packages of {suite}", wanted, found)
    yield lzma.decompress(content).decode()


def _pin(package: Packages, platform: Platform) -> Pin:
    return Pin(
        name=package["Package"],
        architecture=platform.name,
        version=package["Version"],
        path=package["Filename"],
        sha256=package["SHA256"],
        size=int(package["Size"]),
    )
