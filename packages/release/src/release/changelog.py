"""Reads CHANGELOG.md, which has the form of https://keepachangelog.com/en/1.1.0/."""

import re
from dataclasses import dataclass

from release.errors import ReleaseError

UNRELEASED = "Unreleased"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_HEADING = re.compile(r"^## \[(?P<version>[^]\n]+)\](?: - (?P<date>\S+))?[ \t]*$", re.MULTILINE)
_LINKS = re.compile(r"^\[[^]\n]+\]: \S+\n?", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """What is new in one version."""

    version: str  # or "Unreleased"
    date: str  # of the release, as in 2026-01-31; empty where the heading has none
    text: str  # Markdown, without the heading


def sections(changelog: str) -> list[Section]:
    """All sections of the changelog's text, the newest first."""
    found = list(_HEADING.finditer(changelog))
    ends = [following.start() for following in found[1:]] + [len(changelog)] * bool(found)
    return [
        Section(match["version"], match["date"] or "", _LINKS.sub("", changelog[match.end() : end]).strip())
        for match, end in zip(found, ends, strict=True)
    ]


def section_of(changelog: str, version: str) -> Section:
    """The section of a version, or the unreleased one if the version has none yet."""
    for section in sections(changelog):
        if section.version == UNRELEASED and not section.text:
            continue
        if section.version not in (version, UNRELEASED):
            raise ReleaseError(
                f"the newest section of CHANGELOG.md is for version {section.version}, but the current "
                f"version is {version}. Describe the changes in a section '## [{UNRELEASED}]' or '## "
                f"[{version}] - DATE'"
            )
        if not section.text:
            break
        return section
    raise ReleaseError(f"CHANGELOG.md doesn't describe the changes in version {version}")
