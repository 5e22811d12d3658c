import json

from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes_tests.report import Result, Tally, table

STATES = ("passed", "skipped", "failed", "timedout", "panicked", "interrupted")


def result(name, state="passed", group="[sig-network] DNS", seconds=1.0, message=""):
    return Result(name, group, state, seconds, message)


def line(**fields):
    return json.dumps(fields)


def test_progress():
    tally = Tally()
    assert tally.now() == "0 of ?"
    assert tally.take(line(total=3, state="planned")) is None
    assert tally.take(line(name="a", group="g", state="running")) is None
    assert tally.take(line(name="b", group="g", state="running")) is None
    assert tally.now() == "0 of 3; a"
    ended = tally.take(line(name="a", group="g", state="failed", seconds=2.5, message="why"))
    assert ended == Result("a", "g", "failed", 2.5, "why")
    assert tally.now() == "1 of 3, 1 failed; b"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(STATES)), min_size=1))
def test_the_table_counts_every_test_once(ended):
    results = [result(f"t{n}", state, group) for n, (group, state) in enumerate(ended)]
    *_, last = table(results).splitlines()
    name, run, passed, failed, skipped, _ = last.split()
    assert name == "all"
    assert int(passed) + int(failed) + int(skipped) == len(results)
    assert int(run) == int(passed) + int(failed)
    assert int(failed) == sum(one.failed for one in results)


def test_rows_of_groups():
    few = [result("x"), result("y", "failed", "[sig-network] Services [Slow]", 61.6)]
    assert [row.split()[-6:] for row in table(few).splitlines()[1:]] == [
        ["DNS", "1", "1", "0", "0", "1"],
        ["Services", "1", "0", "1", "0", "62"],
        ["all", "2", "1", "1", "0", "63"],
    ]
    many = [result("x", group=f"[sig-{n % 2}] {n}") for n in range(30)]
    assert [row.split()[0] for row in table(many).splitlines()[1:]] == ["[sig-0]", "[sig-1]", "all"]
