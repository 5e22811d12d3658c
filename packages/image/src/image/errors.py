"""Errors of the image. Each text is a complete message for the user.

Most functions of this package may raise ImageError. Docstrings name only the errors that callers distinguish.
"""


class ImageError(Exception):
    """Root of the image's errors. Its text is complete: it is shown without a stack trace."""


class VariableError(ImageError):
    """An environment variable has an invalid value."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={value!r}: must be {allowed}")


class VersionError(ImageError):
    """The tree does not say its version."""


class LockFileError(ImageError):
    """The lock file is missing or can't be read."""


class MirrorError(ImageError):
    """No Debian mirror is known, or none answered."""


class PackageGoneError(ImageError):
    """The mirror no longer has a pinned package: Debian keeps only the newest version of each."""

    def __init__(self, name: str, version: str, architecture: str) -> None:
        super().__init__(
            f"debian.lock pins the package {name} {version} ({architecture}), but the Debian mirror has "
            "only a newer version. Update the pins with './dev lock debian', review the change, and "
            "build again. Or use CCMFS_DEBIAN_MIRROR to choose a mirror that keeps old versions"
        )


class ContentError(ImageError):
    """A download does not have the pinned hash."""

    def __init__(self, what: str, wanted: str, found: str) -> None:
        super().__init__(
            f"{what} has the SHA-256 hash {found}, but the pinned hash is {wanted}, so the file was not used"
        )


class SignatureError(ImageError):
    """A list of Debian packages is not signed by Debian, or is out of date."""


class LayoutError(ImageError):
    """An archive is not an OCI layout, or a blob has another digest. The text does not name the archive."""


class ToolError(ImageError):
    """A program that helps to build failed or is missing."""


class RegistryError(ImageError):
    """A registry did not answer, or refused a request."""

    def __init__(self, registry: str, what: str) -> None:
        super().__init__(f"the registry {registry} {what}")
