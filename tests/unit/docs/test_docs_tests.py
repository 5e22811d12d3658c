from collections import Counter
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone, so it refuses the second when both are collected."""
    folders = (TREE / "tests", *TREE.glob("packages/*/tests"))
    names = Counter(path.name for folder in folders for path in folder.rglob("*.py"))
    allowed = {"__init__.py", "conftest.py"}
    assert sorted(name for name, number in names.items() if number > 1 and name not in allowed) == []
