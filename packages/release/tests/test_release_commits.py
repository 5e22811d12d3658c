import subprocess
from pathlib import Path

import pytest

from release import commits
from release.errors import ReleaseError


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / ".gitignore").write_text("ignored\n")
    (root / "tracked").write_text("1")
    (root / "program").write_text("#!/bin/sh\n")
    (root / "program").chmod(0o755)
    (root / "ignored").write_text("secret")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=first")
    return root


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, timeout=60)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_changes_and_copies_of_the_commit_and_of_the_tree(clone: Path, tmp_path: Path) -> None:
    assert commits.changes(clone) == []
    (clone / "tracked").write_text("2")
    (clone / "program").unlink()
    (clone / "new file").write_text("x")
    assert sorted(commits.changes(clone)) == ["new file", "program", "tracked"]
    committed, changed = tmp_path / "committed", tmp_path / "changed"
    commits.export(clone, committed)
    assert names(committed) == [".gitignore", "program", "tracked"]
    assert (committed / "tracked").read_text() == "1"
    assert (committed / "program").stat().st_mode & 0o777 == 0o755
    commits.copy(clone, changed)
    assert names(changed) == [".gitignore", "new file", "tracked"]
    assert (changed / "tracked").read_text() == "2"


def test_the_same_files_are_the_same_tree_in_another_commit(clone: Path) -> None:
    first = commits.checked_out(clone)
    git(clone, "commit", "--quiet", "--allow-empty", "--message=second")
    second = commits.checked_out(clone)
    assert (first.id == second.id, first.tree == second.tree) == (False, True)
    assert second.time >= first.time > 0


def test_a_folder_that_is_no_clone_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(ReleaseError, match="plain isn't a Git clone with at least"):
        commits.checked_out(tmp_path / "plain")
