"""A release: everything of one commit in one folder, which is whole or not there."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from image.source import project_version
from release import changelog, commits, parts, tested
from release.changelog import UNRELEASED, Section
from release.commits import Commit
from release.errors import ReleaseError
from release.folder import whole
from release.signing import Signer
from release.tested import Record

CHECKSUMS = "checksums.txt"
NOTES = "RELEASE.md"
_SHOWN = 8

Step = Callable[[str], AbstractContextManager[object]]
"""Receives a line of progress."""


@dataclass(frozen=True)
class Wish:
    """What is to be released, and how."""

    root: Path  # of the clone
    output: Path | None  # the new folder; None for ``dist/VERSION`` in the clone
    records: Path  # folder with what runs of the tests left
    helm: Callable[[], Path]  # path of the program
    signer: Signer | None = None  # signs every file; None: no signatures
    tag: str | None = None  # of the commit; None if it has none yet
    uncommitted: bool = False  # allow a tree that differs from the commit, for tests


@dataclass(frozen=True)
class Judged:
    """What can be released."""

    commit: Commit
    changed: Sequence[str]  # files that differ from the commit
    version: str
    news: Section

    @property
    def title(self) -> str:
        """Its name for a person."""
        return f"ccm-from-scratch {self.version}" + (
            ", not released" if self.news.version == UNRELEASED else ""
        )

    @property
    def origin(self) -> str:
        """What it is made from."""
        return f"commit {self.commit.id}" + (" and uncommitted changes" if self.changed else "")


def judge(wish: Wish) -> Judged:
    """Check whether a release can be made, before it is."""
    commit = commits.checked_out(wish.root)
    changed = commits.changes(wish.root)
    final = wish.signer is not None or wish.tag is not None
    if changed and (final or not wish.uncommitted):
        more = [f"and {len(changed) - _SHOWN} more"] if len(changed) > _SHOWN else []
        raise ReleaseError(
            "a release contains only committed files, but this tree has uncommitted changes: "
            f"{', '.join([*changed[:_SHOWN], *more])}. Commit the changes, or build a trial with "
            "'--uncommitted'"
        )
    version = project_version(wish.root)
    if wish.tag not in (None, f"v{version}"):
        raise ReleaseError(
            f"the tag {wish.tag} does not match the version {version} in ccm/version.py. Use the tag "
            f"v{version}, or change the version and commit the change"
        )
    news = changelog.section_of((wish.root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if final and news.version == UNRELEASED:
        raise ReleaseError(
            "a signed or tagged release requires a section with its version and date in CHANGELOG.md. The "
            f"changes of version {version} are still in the section for unreleased changes. Change the "
            f"heading of this section to '## [{version}] - DATE'"
        )
    return Judged(commit, changed, version, news)


def make(wish: Wish, step: Step) -> Path:
    """Make a release and report each step; returns its folder."""
    judged = judge(wish)
    commit = judged.commit
    target = (wish.output or wish.root / "dist" / judged.version).absolute()
    with whole(target) as (folder, tree):
        (commits.copy if judged.changed else commits.export)(wish.root, tree)
        records = [] if judged.changed else tested.find(wish.records, commit.tree)
        with step("Python packages"):
            parts.python_packages(tree, folder, commit.time)
        with step("Chart"):
            parts.chart(tree, folder, commit.time, wish.helm())
        with step("Images of amd64 and arm64"):
            digests = parts.images(tree, folder, commit.time)
        (folder / NOTES).write_text(notes(judged, records, digests), encoding="utf-8")
        (folder / CHECKSUMS).write_text(checksums(folder), encoding="utf-8")
        if wish.signer:
            with step("Signatures"):
                wish.signer.sign_files(folder)
    return target


def notes(judged: Judged, records: Sequence[Record], digests: dict[str, str]) -> str:
    """The release notes, in Markdown; ``digests`` are those of the images by platform, and of their index."""
    images = "\n".join(f"| {name} | `{digest}` |" for name, digest in digests.items())
    return f"""\
# {judged.title}

Made from {judged.origin}.

{judged.news.text}

## What was tested

{tested.table(records)}

## Images

| platform | digest |
|---|---|
{images}

## Verifying the files

`sha256sum --check --ignore-missing {CHECKSUMS}` checks that the files are unchanged.
If the release is signed, the following command verifies the signature of {CHECKSUMS}. You can verify the
other files in the same way:

    cosign verify-blob --insecure-ignore-tlog --key cosign.pub --bundle {CHECKSUMS}.sigstore.json {CHECKSUMS}
"""


def checksums(folder: Path) -> str:
    """The files of a folder as ``sha256sum`` lists them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())
    ]
    return "".join(lines)
