"""Everything that can go wrong with a release, told to a person in one message.

ReleaseError
├── RepositoryError      the folder is no clone, or git failed
├── ChangedTreeError     the tree is not what was committed
├── TagError             a tag is not that of the tree's version
├── OutputError          the folder for the release can't be made
├── FolderError          a folder is no release, or its images are not those of its notes
├── ChangelogError       the changelog does not say what is new in this version
├── RecordError          what a run of the tests left can't be read
├── SigningKeyError      the key to sign with can't be used
└── ProgramError         a program that builds a part failed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_SHOWN = 8


class ReleaseError(Exception):
    """Root of the release's errors. Its text is complete: it is shown without a stack trace."""


class RepositoryError(ReleaseError):
    """The folder is no clone, or git failed."""


class ChangedTreeError(ReleaseError):
    """The tree is not what was committed."""

    def __init__(self, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        more = [f"and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
        super().__init__(
            "a release is what was committed, but here is more: "
            f"{', '.join([*changed[:_SHOWN], *more])}. Commit it, or try with '--uncommitted'"
        )


class TagError(ReleaseError):
    """A tag is not that of the tree's version."""

    def __init__(self, tag: str, version: str) -> None:
        self.tag = tag
        self.version = version
        super().__init__(
            f"the tag {tag} is none of this tree: ccm/version.py says {version}, whose tag is v{version}. "
            "Write the version there before the commit, or tag the commit that has it"
        )


class OutputError(ReleaseError):
    """The folder for the release can't be made."""


class FolderError(ReleaseError):
    """A folder is no release, or its images are not those of its notes."""

    def __init__(self, folder: Path, why: str) -> None:
        self.folder = folder
        super().__init__(f"{folder} is no release as './dev release' makes it: {why}")


class ChangelogError(ReleaseError):
    """The changelog does not say what is new in this version."""


class RecordError(ReleaseError):
    """What a run of the tests left can't be read."""


class SigningKeyError(ReleaseError):
    """The key to sign with can't be used. Nothing of the key is in the text."""


class ProgramError(ReleaseError):
    """A program that builds a part failed."""
