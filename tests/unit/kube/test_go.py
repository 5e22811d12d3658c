import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.go import format_duration, parse_boolean, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("0s", 0), ("5s", 5), ("30s", 30), ("1478s", 1478), ("-5s", -5), ("+5s", 5), ("-0", 0),
        ("5.0s", 5), ("5.6s", 5.6), ("5.s", 5), (".5s", 0.5), ("10ns", 1e-8), ("11us", 1.1e-5),
        ("12µs", 1.2e-5),
        ("12μs", 1.2e-5), ("13ms", 0.013), ("15m", 900), ("16h", 57600), ("3h30m", 12600), ("10.5s4m", 250.5),
        ("1h2m3s4ms5us6ns", 3723.004005006), ("39h9m14.425s", 140954.425),
    ],
)  # fmt: skip
def test_durations_of_go(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "3", "-", "s", ".", "-.", ".s", "1d", "5 s", "1h-5m", "5S", "0x1s", "1_0s", "2562048h",
     "9" * 400 + "h", "٣s"],
)  # fmt: skip
def test_no_durations(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (5, "5s"), (90, "1m30s"), (43200, "12h0m0s"), (0.5, "500ms"), (1.5, "1.5s"), (-90, "-1m30s")],
)
def test_format(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(-(10**6), 10**6))
def test_what_is_formatted_parses(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("texts", ["1 t T TRUE true True", "0 f F FALSE false False"])
def test_booleans(texts):
    assert {parse_boolean(text) for text in texts.split()} == {texts.startswith("1")}


@pytest.mark.parametrize("text", ["yes", "on", "tRUE", "", "2", " true"])
def test_no_booleans(text):
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_boolean(text)
