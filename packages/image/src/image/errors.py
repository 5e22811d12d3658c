"""Everything that can go wrong with the image, told to a person in one message.

ImageError
├── VariableError        an environment variable has a value that can't be meant
├── VersionError         the tree does not say its version
├── LockFileError        the lock file is missing or can't be read
├── MirrorError          no Debian mirror is known, or none answered
├── PackageGoneError     the mirror no longer has a pinned package
├── ContentError         what was fetched is not what was pinned
├── SignatureError       a list of Debian packages is not signed by Debian, or is too old to be believed
├── LayoutError          an archive is no OCI layout, or what is in it is not what it is named by
├── ToolError            a program that helps to build failed or is missing
└── RegistryError        a registry could not be asked, or refused
"""

from __future__ import annotations


class ImageError(Exception):
    """Root of the image's errors. Its text is complete: it is shown without a stack trace."""


class VariableError(ImageError):
    """An environment variable has a value that can't be meant."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        self.name = name
        self.value = value
        super().__init__(f"{name}={value!r}: has to be {allowed}")


class VersionError(ImageError):
    """The tree does not say its version."""


class LockFileError(ImageError):
    """The lock file is missing or can't be read."""


class MirrorError(ImageError):
    """No Debian mirror is known, or none answered."""


class PackageGoneError(ImageError):
    """The mirror no longer has a pinned package: Debian keeps only the newest version of each."""

    def __init__(self, name: str, version: str, architecture: str) -> None:
        self.name = name
        self.version = version
        self.architecture = architecture
        super().__init__(
            f"the Debian mirror no longer has {name} {version} ({architecture}), which debian.lock pins: a "
            "newer version has taken its place. Move the pins on with './dev lock debian', look at what "
            "changed, and build again; or name a mirror that keeps old versions in CCMFS_DEBIAN_MIRROR"
        )


class ContentError(ImageError):
    """What was fetched is not what was pinned."""

    def __init__(self, what: str, wanted: str, found: str) -> None:
        self.what = what
        self.wanted = wanted
        self.found = found
        super().__init__(f"{what} has the SHA-256 {found}, but {wanted} is pinned; nothing of it was used")


class SignatureError(ImageError):
    """A list of Debian packages is not signed by Debian, or is too old to be believed."""


class LayoutError(ImageError):
    """An archive is no OCI layout, or what is in it is not what it is named by. Its text does not name it."""


class ToolError(ImageError):
    """A program that helps to build failed or is missing."""


class RegistryError(ImageError):
    """A registry could not be asked, or refused."""

    def __init__(self, registry: str, what: str) -> None:
        self.registry = registry
        self.what = what
        super().__init__(f"the registry {registry} {what}")
