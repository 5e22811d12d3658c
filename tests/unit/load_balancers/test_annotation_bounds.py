import pytest
from desired_cases import NO_DEFAULTS

from ccm.hetzner.load_balancers.service_annotations import (
    MAX_ANNOTATIONS_LENGTH,
    PREFIX,
    SHARE,
    SOURCE_RANGES,
    TOO_LONG,
    Annotations,
    annotations_to_keep,
    sort,
)
from ccm.hetzner.load_balancers.spec.load_balancer_spec import Values
from ccm.hetzner.load_balancers.truncation import MAX_SHOWN_LENGTH

NAME = PREFIX + "name"


def filled(characters: int, **others: str) -> dict[str, str]:
    """Annotations below the prefix of so many characters, names included."""
    several = {PREFIX + key: text for key, text in others.items()}
    taken = sum(len(key) + len(text) for key, text in several.items()) + len(NAME)
    return {**several, NAME: "x" * (characters - taken)}


JUST_FITS, TOO_MANY = filled(MAX_ANNOTATIONS_LENGTH), filled(MAX_ANNOTATIONS_LENGTH + 1)
NONE_COUNTS = Annotations(
    {},
    {},
    frozenset(),
    {
        PREFIX: f"{PREFIX}…: the annotations with this prefix have 32769 characters in total. The limit is "
        "32768 characters, so the CCM ignores all these annotations"
    },
)


def test_what_just_fits_is_read_and_kept() -> None:
    assert sort(JUST_FITS) == Annotations({"name": JUST_FITS[NAME]}, {}, frozenset())
    assert annotations_to_keep({"example.com/of-others": "x"} | JUST_FITS) == JUST_FITS


def test_of_too_many_only_their_number_is_kept_and_says_the_same() -> None:
    assert sort(TOO_MANY) == NONE_COUNTS
    kept = annotations_to_keep(TOO_MANY)
    assert kept == {TOO_LONG: "32769"}
    assert sort(kept) == NONE_COUNTS
    assert annotations_to_keep(kept) == kept


@pytest.mark.parametrize(
    ("share", "kept"), [("e", "e"), (" edge ", "edge"), ("x" * 63, "x" * 63), ("x" * 64, None), (" ", None)]
)
def test_the_word_of_those_that_share_is_kept_in_any_case(share: str, kept: str | None) -> None:
    found = annotations_to_keep(filled(MAX_ANNOTATIONS_LENGTH + 1, share=share))
    assert found == {TOO_LONG: "32769"} | ({SHARE: kept} if kept else {})


def test_source_ranges_are_kept_as_far_as_they_are_shown() -> None:
    assert annotations_to_keep({SOURCE_RANGES: "10.0.0.0/8," * 100}) == {
        SOURCE_RANGES: ("10.0.0.0/8," * 100)[:MAX_SHOWN_LENGTH]
    }


class TestValues:
    def test_a_ports_own_win_and_are_named_by_their_port(self) -> None:
        annotations = sort({PREFIX + "protocol": "http", PREFIX + "port.443.protocol": "udp"})
        assert Values(annotations, NO_DEFAULTS)["protocol"] == "http"
        assert Values(annotations, NO_DEFAULTS, 80)["protocol"] == "http"
        assert annotations.problems == {}
        assert Values(annotations, NO_DEFAULTS, 443)["protocol"] == "tcp"
        name = f"{PREFIX}port.443.protocol"
        assert annotations.problems == {name: f"{name}: 'udp' is not tcp or http or https"}

    def test_what_is_refused_is_named_with_its_value_or_with_none(self) -> None:
        annotations = sort({PREFIX + "port.443.protocol": "https", PREFIX + "type": "lb99"})
        values = Values(annotations, NO_DEFAULTS, 443)
        for key in ("protocol", "type", "name"):
            values.refuse(key, "is odd")
        assert annotations.problems == {
            f"{PREFIX}port.443.protocol": f"{PREFIX}port.443.protocol: 'https' is odd",
            f"{PREFIX}type": f"{PREFIX}type: 'lb99' is odd",
            f"{PREFIX}name": f"{PREFIX}name: '' is odd",
        }
