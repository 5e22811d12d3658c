import json
from pathlib import Path

import pytest

from bench.lab.report import Row, as_json, main, table
from bench.lab.subject import subjects


def test_the_table_names_the_verdict_of_each_row_and_of_all() -> None:
    rows = [Row("good", 2, 2), Row("bad", 2.01, 2, peer=7, note="why")]
    report = json.loads(as_json("Title", [*rows, Row("no bound", 99)]))
    assert report["passed"] is False
    assert [row["passed"] for row in report["rows"]] == [True, False, True]
    lines = table("Title", rows).splitlines()
    assert lines[0] == "Title"
    assert lines[2].startswith("good") and lines[2].endswith("PASS")  # noqa: PT018 - one line
    assert "7 calls" in lines[3] and lines[3].endswith("FAIL")  # noqa: PT018 - one line
    assert lines[-2] == "  bad: why"
    assert lines[-1] == "FAIL"


def test_a_wrong_peer_ends_before_anything_is_started(capsys, monkeypatch) -> None:
    async def measure(_: object) -> list[Row]:
        raise AssertionError

    monkeypatch.setattr("sys.argv", ["bench", "--peer", "/nowhere"])
    assert main("Title", None, measure) == 2
    assert capsys.readouterr().err.startswith("bench: --peer: /nowhere is not an executable file")


@pytest.mark.parametrize(("figure", "code"), [(1, 0), (3, 1)])
def test_the_exit_code_tells_whether_all_bounds_hold(monkeypatch, figure: float, code: int) -> None:
    async def measure(_: object) -> list[Row]:
        return [Row("x", figure, 2)]

    monkeypatch.setattr("sys.argv", ["bench"])
    assert main("Title", None, measure) == code


def test_the_peer_runs_with_the_flags_of_its_manifest() -> None:
    ours, peer = subjects(Path("/bin/peer"))
    gate = "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true"
    assert gate in peer.flags
    assert ours.flags == ()
