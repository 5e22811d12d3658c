"""``debian.lock``: which Debian packages the image is made of, by version and hash."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from image.errors import LockFileError
from image.platforms import Platform

PATH = Path(__file__).with_name("debian.lock")


@dataclass(frozen=True, order=True)
class Pin:
    """One Debian package."""

    name: str
    architecture: str  # of the image that it is for, as in ``Platform.name``
    version: str
    path: str  # below a mirror's root
    sha256: str  # of the package's file, in hexadecimal digits
    size: int  # bytes of that file


@dataclass(frozen=True)
class Lock:
    """The lock file."""

    suite: str  # Debian's code name
    pins: tuple[Pin, ...]  # of all platforms, sorted

    def of(self, platform: Platform) -> tuple[Pin, ...]:
        """The packages of one platform."""
        return tuple(pin for pin in self.pins if pin.architecture == platform.name)

    def version_of(self, name: str, platform: Platform) -> str:
        """Debian's version of a package."""
        for pin in self.of(platform):
            if pin.name == name:
                return pin.version
        raise LockFileError(
            f"{PATH.name} has no version of package {name} for platform {platform.name}. Run './dev lock "
            "debian'"
        )


def read(path: Path = PATH) -> Lock:
    """Reads the lock file."""
    try:
        content: Any = json.loads(path.read_text())
        return Lock(content["suite"], tuple(sorted(Pin(**pin) for pin in content["packages"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LockFileError(
            f"the lock file {path} can't be read: {error}. To recreate the file, run './dev lock debian'"
        ) from error


def write(suite: str, pins: Iterable[Pin], path: Path = PATH) -> None:
    """Writes the lock file, one property per line, so that a change is easy to review."""
    content = {"suite": suite, "packages": [asdict(pin) for pin in sorted(pins)]}
    path.write_text(json.dumps(content, indent=1) + "\n")
