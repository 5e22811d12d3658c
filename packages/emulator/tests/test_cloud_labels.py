import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.errors import InvalidInput
from hetzner_emulator.wire.labels import is_key, label_problems, parse_selector

names = st.from_regex(r"[a-z]([-a-z0-9_.]{0,8}[a-z0-9])?", fullmatch=True).filter(
    lambda n: n not in {"in", "notin"}
)
label_sets = st.dictionaries(names, names, max_size=4)


@st.composite
def requirements(draw: st.DrawFn) -> tuple[str, object]:
    """A requirement as text and as a function, written independently of the parser."""
    key, value, others = draw(names), draw(names), draw(st.lists(names, min_size=1, max_size=3))
    space = draw(st.sampled_from(["", " "]))
    return draw(
        st.sampled_from(
            [
                (f"{key}=={value}", lambda labels: labels.get(key) == value),
                (f"{key}={value}", lambda labels: labels.get(key) == value),
                (f"{key}!={value}", lambda labels: labels.get(key) != value),
                (key, lambda labels: key in labels),
                (f"!{key}", lambda labels: key not in labels),
                (f"{key} in {space}({','.join(others)})", lambda labels: labels.get(key) in others),
                (f"{key} notin ({', '.join(others)}{space})", lambda labels: labels.get(key) not in others),
            ]
        )
    )


@given(st.lists(requirements(), max_size=4), label_sets)
def test_a_selector_is_the_conjunction_of_its_requirements(parts, labels):
    selector = parse_selector(",".join(text for text, _ in parts))
    assert selector.matches(labels) is all(holds(labels) for _, holds in parts)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_an_error(text):
    fields = {"label_selector"}
    try:
        parse_selector(text)
    except InvalidInput as error:
        fields = set(error.fields)
    assert fields == {"label_selector"}


@pytest.mark.parametrize(
    "text", ["a=b,,c", "a in b", "a in (b", "a=b=c", "=v", "!", "a b", "-a=b", "a=b_", ","]
)
def test_malformed_selectors_are_refused(text):
    with pytest.raises(InvalidInput):
        parse_selector(text)


VALID = ["a", "A1", "a.b_c-d", "example.com/a", "a" * 63, "kubernetes.io/cluster", "hetzner.cloud"]
INVALID = ["", "-a", "a-", "a" * 64, "/a", "a/", "a/b/c", "UPPER.com/a", "a b", "x" * 254 + "/a"]


def test_keys_and_values():
    assert [key for key in VALID if not is_key(key) or label_problems({key: ""})] == []
    assert [key for key in (*INVALID, "hetzner.cloud/reserved") if not label_problems({key: ""})] == []
    invalid = ("-", "a-", "a" * 64, "a b", "a/b", "ä", 1)
    assert [value for value in invalid if not label_problems({"key": value})] == []
