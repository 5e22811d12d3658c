import pytest

from ccm.hetzner.load_balancers.spec.selector import MAX_CONDITIONS, parse


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a,b", {"a": ""}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a notin (b,c)", {"a": "c"}, False),
        ("a notin (b,c)", {}, True),
        ("example.com/pool in (edge),!spot", {"example.com/pool": "edge"}, True),
        ("a=b,c=d", {"a": "b", "c": "x"}, False),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "x"}, True),
        ("a in(b,,c)", {"a": ""}, True),
        ("a in (,b)", {"a": ""}, True),
        ("a notin (b,)", {"a": ""}, False),
        ("in in (in)", {"in": "in"}, True),
        ("generation>4", {"generation": "5"}, True),
        ("generation>4", {"generation": "2000"}, True),
        ("generation > 4", {"generation": "4"}, False),
        ("generation < 4", {"generation": "03"}, True),
        ("generation < 4", {"generation": "new"}, False),
        ("generation < 4", {}, False),
        ("generation > 4", {"generation": "9" * 19}, False),
        (f"generation < {2**63 - 1}", {"generation": f"{2**63 - 2}"}, True),
        ("x" * 63, {"x" * 63: ""}, True),
        ("x" * 253 + "/a", {"x" * 253 + "/a": ""}, True),
    ],
)
def test_matches(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse(text).matches(labels) is matches


def test_a_condition_that_stands_there_twice_counts_once() -> None:
    assert parse("a=b, c in (d, e),a=b") == parse("a=b,c in (e,d)")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a in b", "'(' is expected, not 'b'"),
        ("a in (b", "',' is expected, not ''"),
        ("a in (b c)", "',' is expected, not 'c'"),
        ("a in (b) c", "',' is expected, not 'c'"),
        ("a=b c", "',' is expected, not 'c'"),
        ("!a=b", "',' is expected, not '='"),
        ("a),b", "')' isn't an operator of a label selector"),
        ("a b", "'b' isn't an operator of a label selector"),
        ("=b", "'=' isn't a valid label key"),
        ("a=b,", "'' isn't a valid label key"),
        (",", "',' isn't a valid label key"),
        ("-a", "'-a' isn't a valid label key"),
        ("A/b", "'A/b' isn't a valid label key"),
        ("a//b", "'a//b' isn't a valid label key"),
        ("/b", "'/b' isn't a valid label key"),
        ("x" * 64, f"'{'x' * 64}' isn't a valid label key"),
        ("x" * 254 + "/a", f"'{'x' * 254}/a' isn't a valid label key"),
        ("a\x00b", r"'a\x00b' isn't a valid label key"),
        ("a=!b", "'!' isn't a valid label value"),
        ("a===b", "'=' isn't a valid label value"),
        ("a=ü", "'ü' isn't a valid label value"),
        ("a=" + "x" * 64, f"'{'x' * 64}' isn't a valid label value"),
        ("a in (", "'' isn't a valid label value"),
        ("a in ((b))", "'(' isn't a valid label value"),
        ("a in ()", "the parentheses are empty"),
        ("a>", "'' isn't a whole number"),
        ("a>b", "'b' isn't a whole number"),
        ("a<b", "'b' isn't a whole number"),
        ("a>-1", "'-1' isn't a valid label value"),
        (f"a>{2**63}", f"'{2**63}' isn't a whole number"),
    ],
)
def test_what_is_none_and_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse(text)
    assert str(caught.value) == why


def test_conditions_are_bounded() -> None:
    most = [f"!x{number}" for number in range(MAX_CONDITIONS)]
    assert len(parse(",".join(most)).requirements) == MAX_CONDITIONS
    with pytest.raises(ValueError, match="more than 32 conditions"):
        parse(",".join([*most, "y"]))
