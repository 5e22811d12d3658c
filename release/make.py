"""A release: everything of one commit in one folder, which is whole or not there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from image.source import project_version
from release import changelog, commits, parts, tested
from release.changelog import UNRELEASED, Section
from release.errors import ChangedTreeError, ChangelogError
from release.folder import whole
from release.signing import Signer
from release.tested import Record

CHECKSUMS = "checksums.txt"
NOTES = "RELEASE.md"

Step = Callable[[str], AbstractContextManager[object]]
"""Tells a person what is done now."""


@dataclass(frozen=True)
class Wish:
    """What is to be released, and how.

    Attributes:
        root: The clone.
        output: The new folder; None for ``dist/VERSION`` in the clone.
        records: Folder with what runs of the tests left.
        helm: The program.
        signer: Signs every file; None for no signatures.
        uncommitted: Whether the tree is taken as it is, to try something.
    """

    root: Path
    output: Path | None
    records: Path
    helm: Callable[[], Path]
    signer: Signer | None = None
    uncommitted: bool = False


def make(wish: Wish, step: Step) -> Path:
    """Makes a release; returns its folder.

    Args:
        wish: What is wanted.
        step: Tells a person about it.

    Raises:
        ReleaseError: There is a reason not to, or a part can't be built.
        ImageError: The images can't be built.
    """
    commit = commits.checked_out(wish.root)
    changed = commits.changes(wish.root)
    if changed and (wish.signer or not wish.uncommitted):
        raise ChangedTreeError(changed)
    version = project_version(wish.root)
    target = (wish.output or wish.root / "dist" / version).absolute()
    with whole(target) as (folder, tree):
        (commits.copy if changed else commits.export)(wish.root, tree)
        news = _news(tree, version, signed=wish.signer is not None)
        records = [] if changed else tested.find(wish.records, commit.tree)
        with step("Wheel and sdist"):
            parts.python_packages(tree, folder, commit.time)
        with step("Chart"):
            parts.chart(tree, folder, commit.time, wish.helm())
        with step("Images of amd64 and arm64"):
            digests = parts.images(tree, folder, commit.time)
        of = f"commit {commit.id}" + (" and changes that were not committed" if changed else "")
        text = notes(version, of, news, records, digests)
        (folder / NOTES).write_text(text, encoding="utf-8")
        (folder / CHECKSUMS).write_text(checksums(folder), encoding="utf-8")
        if wish.signer:
            with step("Signatures"):
                wish.signer.sign_files(folder)
    return target


def _news(tree: Path, version: str, *, signed: bool) -> Section:
    news = changelog.section_of((tree / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if signed and news.version == UNRELEASED:
        raise ChangelogError(
            f"what is signed is meant for others, but CHANGELOG.md says that {version} is not released: name "
            f"its section '## [{version}] - DATE'"
        )
    return news


def notes(version: str, of: str, news: Section, records: Sequence[Record], digests: dict[str, str]) -> str:
    """What people read beside the files, in Markdown.

    Args:
        version: Of the release.
        of: What it was made from.
        news: What is new.
        records: What runs of the tests left.
        digests: Of the images, by platform, with that of their index.
    """
    title = f"# ccm-from-scratch {version}" + (", not released" if news.version == UNRELEASED else "")
    images = "\n".join(f"| {name} | `{digest}` |" for name, digest in digests.items())
    return f"""\
{title}

Made from {of}.

{news.text}

## What was tested

{tested.table(records)}

## Images

| platform | digest |
|---|---|
{images}

## Checking what you have

`sha256sum --check --ignore-missing {CHECKSUMS}` compares the files. Where the release is signed, the list
itself can be checked, and in the same way every other file:

    cosign verify-blob --insecure-ignore-tlog --key cosign.pub --bundle {CHECKSUMS}.sigstore.json {CHECKSUMS}
"""


def checksums(folder: Path) -> str:
    """The files of a folder as ``sha256sum`` lists them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())
    ]
    return "".join(lines)
