"""Updates the pins of Debian packages to the newest versions in Debian's signed lists, for ``./dev lock``."""

import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
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
_MOST = 4 << 20  # bytes of the signed list of lists; Debian's are a tenth of that
_SLACK = timedelta(hours=1)
"""How far the date of a package list may be ahead of this machine's clock."""

Verify = Callable[[bytes], bytes]
"""Returns the signed part of a text. Raises SignatureError if the signature is invalid."""

Candidates = Mapping[str, Packages]
"""Maps the name of each requested package to the newest version of the package."""


@dataclass(frozen=True)
class Index:
    """A Debian list of packages for one platform: their stanzas, by name, not read yet."""

    stanzas: Mapping[str, tuple[str, ...]]

    def newest(self, name: str) -> Packages | None:
        """The newest version of a package; None if it does not exist."""
        found = [Packages(stanza) for stanza in self.stanzas.get(name, ())]
        return max(found, key=lambda package: Version(package["Version"]), default=None)


def indexes(mirror: Mirror, verify: Verify, now: datetime) -> dict[Platform, Index]:
    """Debian's present package lists, by platform."""
    suites = [*_suites(mirror, verify, now)]
    return {
        platform: read_index(text for suite in suites for text in _lists(mirror, *suite, platform))
        for platform in PLATFORMS
    }


def newest_pins(
    debian: Mapping[Platform, Index], roots: Collection[str], left_out: Collection[str]
) -> list[Pin]:
    """The newest versions of an image's packages (``roots`` and their dependencies), of all platforms."""
    return [
        _pin(package, platform)
        for platform, index in debian.items()
        for package in closure(index, roots, left_out).values()
    ]


def closure(index: Index, roots: Iterable[str], left_out: Collection[str]) -> dict[str, Packages]:
    """Packages and their dependencies, except those that are left out; of alternatives the first."""
    chosen: dict[str, Packages] = {}
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name in chosen or name in left_out:
            continue
        package = index.newest(name)
        if package is None:
            raise LockFileError(f"Debian has no package named {name} for this platform")
        chosen[name] = package
        for field in ("pre-depends", "depends"):
            waiting += [alternatives[0]["name"] for alternatives in package.relations[field] or ()]
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
    """The new pins that are older than the previous ones: the mirror is out of date or hostile."""
    had = {(pin.name, pin.architecture): Version(pin.version) for pin in before.pins}
    return [
        pin for pin in after if Version(pin.version) < had.get((pin.name, pin.architecture), Version("0"))
    ]


def gpgv() -> Verify:
    """Verifies with Debian's own keyring, by GnuPG."""
    program = shutil.which("gpgv")
    keyring = next((path for path in KEYRINGS if path.is_file()), None)
    if program is None or keyring is None:
        raise ToolError(
            "the verification of Debian's package lists requires gpgv and Debian's keyring. On Debian "
            "and Ubuntu, run: sudo apt-get install gpgv debian-archive-keyring"
        )

    def verify(signed: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(signed)
            file.flush()
            command = [program, "--keyring", str(keyring), "--output", "-", file.name]
            done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise SignatureError(f"the package list has no valid signature from Debian: {said}")
        return done.stdout

    return verify


def _suites(mirror: Mirror, verify: Verify, now: datetime) -> Iterator[tuple[str, Release]]:
    for suite in (recipe.SUITE, f"{recipe.SUITE}-updates", f"{recipe.SUITE}-security"):
        signed = mirror.fetch(f"dists/{suite}/InRelease", _MOST)
        if signed is None:
            raise MirrorError(f"no Debian mirror has the suite {suite}. Tried: {', '.join(mirror.roots)}")
        release = Release(verify(signed))
        if release.get("Codename") != suite:  # else a mirror could give old or coming packages for these
            raise SignatureError(
                f"the mirror's folder for suite {suite} contains another suite: {release.get('Codename')}"
            )
        _check_time(suite, release, now)
        yield suite, release


def _check_time(suite: str, release: Release, now: datetime) -> None:
    """Old lists are signed, too: a replay of them would withhold security updates.

    Lists of updates and security updates say until when they are valid. The list of a stable release itself,
    changed every few months, does not. https://wiki.debian.org/DebianRepository/Format#Date.2C_Valid-Until
    """
    made, ends = _time(suite, release, "Date"), _time(suite, release, "Valid-Until")
    clock = f". The time on this machine is {now:%Y-%m-%d %H:%M} UTC"
    if ends is not None and ends < now:
        raise SignatureError(
            f"the mirror's package list for suite {suite} expired on {ends:%Y-%m-%d %H:%M} UTC{clock}. "
            "The mirror is out of date, or withholds newer packages. Use another mirror"
        )
    if made is None or made > now + _SLACK:
        raise SignatureError(
            f"the mirror's package list for suite {suite} has no date, or its date is in the future: "
            f"{release.get('Date', 'no date')}{clock}"
        )


def _time(suite: str, release: Release, field: str) -> datetime | None:
    text = release.get(field)
    try:
        return None if text is None else parsedate_to_datetime(text).astimezone(UTC)
    except ValueError as error:
        raise SignatureError(
            f"the mirror's package list for suite {suite} has an invalid time in the field {field}: {text!r}"
        ) from error


def _lists(mirror: Mirror, suite: str, release: Release, platform: Platform) -> Iterator[str]:
    name = f"main/binary-{platform.name}/Packages.xz"
    entry = next((entry for entry in release["SHA256"] if entry["name"] == name), None)
    if entry is None:
        raise MirrorError(f"Debian's suite {suite} has no package list for platform {platform.name}")
    content = mirror.fetch(f"dists/{suite}/{name}", int(entry["size"]))
    found = hashlib.sha256(content or b"").hexdigest()
    if content is None or found != entry["sha256"]:
        raise ContentError(f"the package list for suite {suite}", entry["sha256"], found)
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
