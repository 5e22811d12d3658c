import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hetzner_emulator.traffic.fault_rules import read_rule
from hetzner_emulator.traffic.faults import Faults
from sandbox.api import reason
from sandbox.commands.faults import listing, numbers, rule
from sandbox.errors import SandboxError


def test_words_become_a_rule():
    words = ["path=/servers/{id}", "code=locked", "times=2", "probability=0.5", "after=true"]
    read = read_rule(rule(words), 1)
    assert (read.path, read.code, read.times) == ("/servers/{id}", "locked", 2)
    assert (read.probability, read.after) == (0.5, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["locked"], "'locked'"), (["times=1", "times=2"], "times"), ([], "at least one field")],
)
def test_invalid_rules(words, said):
    with pytest.raises(SandboxError, match=said):
        rule(words)


@example({"seed": "NaN", "code": "-Infinity", "latency": "1e999", "times": "9" * 400, "path": "9" * 5000})
@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(), min_size=1))
def test_values_of_rules(fields):
    read = rule([f"{name}={value}" for name, value in fields.items()])
    assert read.keys() == fields.keys()
    for name, value in read.items():
        assert value == fields[name] if isinstance(value, str) else value == json.loads(fields[name])


@pytest.mark.parametrize("words", [[], ["x"], ["1", "-2"], ["٣"]])
def test_rules_are_removed_by_number(words):
    assert numbers(["1", "22", "01"]) == [1, 22]
    with pytest.raises(SandboxError, match=r"'\./dev faults' lists the rules"):
        numbers(words)


def test_the_table_of_rules():
    faults = Faults()
    faults.add({"path": "/servers", "code": "locked", "times": 2})
    faults.add({"path": "/networks", "latency": 1.5})
    faults.add({"command": "attach_*", "message": "no"})
    faults.for_request("GET", "/servers", "/servers")
    assert listing(faults.listing()).splitlines() == [
        "ID  REQUESTS         EFFECT                APPLIED TO",
        "1   * /servers       times 2, code locked  1 of 1",
        "2   * /networks      latency 1.5           0 of 0",
        "3   action attach_*  error                 0 of 0",
    ]
    assert listing([]) == "no fault rules"


def test_refused_calls_name_the_field():
    fields = [{"name": "drop", "messages": ["must be 'before' or 'after'"]}]
    error = {"code": "invalid_input", "message": "invalid input", "details": {"fields": fields}}
    assert reason(json.dumps({"error": error}).encode()) == "drop: must be 'before' or 'after'"
    assert reason(b'{"error": {"message": "no", "details": null}}') == "no"
