import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from release import tested
from release.errors import ReleaseError
from release.tested import RAN, Record, find, keep, read_run, table

TREE_ID = "a" * 40
RECORD = Record(TREE_ID, "machines", 7, 2, {"Kubernetes": "1.36.3", "Python": "3.11.7"})


def junit(path: Path, *cases: str) -> Path:
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


def case(name: str, content: str = "", **ran: str) -> str:
    properties = "".join(f'<property name="{RAN}{key}" value="{value}"/>' for key, value in ran.items())
    return f'<testcase name="{name}"><properties>{properties}</properties>{content}</testcase>'


def test_this_run_says_its_python(record_property) -> None:
    record_property(f"{RAN}Python", platform.python_version())


def test_a_run_is_what_pytest_wrote_of_its_layers(tmp_path: Path) -> None:
    files = [
        junit(tmp_path / "0.xml", case("a", Python="3.11.7"), case("b", "<skipped/>")),
        junit(tmp_path / "1.xml", case("c", Kubernetes="1.36.3"), case("d", Kubernetes="1.36.3")),
    ]
    found = read_run(files, TREE_ID, "machines")
    assert found == Record(TREE_ID, "machines", 3, 1, {"Kubernetes": "1.36.3", "Python": "3.11.7"})


@pytest.mark.parametrize("cases", [[case("a", Kubernets="1")], [case("a", Helm="1"), case("b", Helm="2")]])
def test_tests_that_disagree_or_speak_of_something_else_leave_nothing(tmp_path: Path, cases) -> None:
    with pytest.raises(ReleaseError, match=r" ran with (Kubernets 1|Helm 2), "):
        read_run([junit(tmp_path / "0.xml", *cases)], TREE_ID, "machines")


def test_records_are_found_by_the_tree_and_kept_for_every_python(tmp_path: Path) -> None:
    newer = Record(TREE_ID, "hollow", 5, 4, {"Python": "3.14.0"})
    other = Record("b" * 40, "machines", 7, 2, {"Python": "3.11.7"})
    for record in (RECORD, newer, other):
        keep(record, tmp_path / "tested")
    assert find(tmp_path / "tested", TREE_ID) == [RECORD, newer]
    assert find(tmp_path / "tested", "c" * 40) == []
    assert find(tmp_path / "nothing", TREE_ID) == []


def test_versions_of_kubernetes_leave_records_side_by_side_with_that_of_all_tests(tmp_path: Path) -> None:
    runs = [
        replace(RECORD, versions=RECORD.versions | {"Kubernetes": version}, tests="kubernetes")
        for version in ("1.34.4", "1.35.4", "1.36.3")
    ]
    for record in (RECORD, *runs):
        keep(record, tmp_path)
    assert find(tmp_path, TREE_ID) == [*runs, RECORD]
    text = table(find(tmp_path, TREE_ID))
    assert "| Kubernetes | 1.34.4, 1.35.4, 1.36.3 |" in text
    assert "7 tests passed, and 2 tests were skipped. The versions were Kubernetes 1.34.4 and Python" in text
    assert "2 tests were skipped. The versions were Kubernetes 1.36.3 and Python 3.11.7" in text


@pytest.mark.parametrize("ran", [{}, {"Kubernetes": "1.36.3"}])
def test_a_run_that_ran_another_kubernetes_than_it_was_to_leaves_nothing(tmp_path: Path, ran) -> None:
    file = junit(tmp_path / "0.xml", case("a", **ran))
    with pytest.raises(ReleaseError, match=r"Kubernetes 1\.34\.4 .* Kubernetes (None|1\.36\.3)"):
        read_run([file], TREE_ID, "machines", kubernetes="1.34.4")
    file = junit(tmp_path / "0.xml", case("a", Kubernetes="1.34.4"))
    assert read_run([file], TREE_ID, "machines", kubernetes="1.34.4").tests == "kubernetes"


def test_only_the_newest_records_are_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tested, "KEPT", 2)
    paths = []
    for number in range(3):
        paths.append(keep(Record(str(number) * 40, "machines", 1, 0, {}), tmp_path))
        os.utime(paths[-1], (number, number))
    keep(RECORD, tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([paths[2], tmp_path / f"{TREE_ID}-python-3.11.7.json"])


def test_the_table_claims_what_ran_and_nothing_else() -> None:
    other = Record(TREE_ID, "hollow", 5, 4, {"Kubernetes": "1.36.3", "Python": "3.9.0"})
    lines = table([RECORD, other]).splitlines()
    assert "| Kubernetes | 1.36.3 |" in lines
    assert "| Python | 3.9.0, 3.11.7 |" in lines
    assert "| k3s | not run |" in lines
    assert "2 tests were skipped. The versions were Kubernetes 1.36.3 and Python 3.11.7" in table([RECORD])
    assert "|" not in table([])
    assert "There is no record" in table([])
