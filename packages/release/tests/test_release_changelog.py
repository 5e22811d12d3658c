import re
from pathlib import Path

import pytest

from ccm.version import VERSION
from release.changelog import KINDS, UNRELEASED, section_of, sections
from release.errors import ReleaseError

OURS = (Path(__file__).parents[3] / "CHANGELOG.md").read_text(encoding="utf-8")
SAMPLE = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- More.

## [0.1.0] - 2026-11-22

First.

[0.2.0]: https://example.com/2
[0.1.0]: https://example.com/1
"""


def test_the_form_of_our_changelog() -> None:
    found = sections(OURS)
    assert found[0].version in {UNRELEASED, VERSION}
    assert len({section.version for section in found}) == len(found)
    for section in found:
        assert set(re.findall(r"^### (.*)$", section.text, re.MULTILINE)) <= set(KINDS)
        assert section.version == UNRELEASED or re.fullmatch(r"\d{4}-\d\d-\d\d", section.date)


def test_sections_end_where_the_next_one_begins_and_before_the_links() -> None:
    found = [(section.version, section.date, section.text) for section in sections(SAMPLE)]
    assert found == [
        ("Unreleased", "", ""),
        ("0.2.0", "2026-12-01", "### Added\n\n- More."),
        ("0.1.0", "2026-11-22", "First."),
    ]


def test_what_is_new_in_a_version_is_its_section_or_what_is_not_released() -> None:
    assert section_of(SAMPLE, "0.2.0").text.endswith("- More.")
    assert section_of(SAMPLE.replace("d]\n", "d]\n\nNext.\n"), "0.3.0").text == "Next."


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        (SAMPLE, "is for version 0.2.0, but the current version is 0.3.0"),
        ("# Changelog\n", "version 0.3.0"),
        ("## [Unreleased]\n", "version 0.3.0"),
        ("## [0.3.0] - 2027-01-01\n\n## [0.2.0] - 2026-12-01\n\nMore.", "version 0.3.0"),
    ],
)
def test_a_version_that_it_says_nothing_of_is_no_release(changelog: str, said: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(said)):
        section_of(changelog, "0.3.0")
