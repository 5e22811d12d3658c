from pathlib import Path

import pytest

from release.errors import ReleaseError
from release.folder import whole


def test_a_folder_has_its_name_only_once_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "dist" / "1.0"
    with whole(target) as (folder, meanwhile):
        (folder / "file").write_text("x")
        (meanwhile / "other").write_text("y")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["file"]
    assert [path.name for path in target.parent.iterdir()] == ["1.0"]


def fail_within(target: Path) -> None:
    with whole(target) as (folder, _):
        (folder / "file").write_text("x")
        raise KeyboardInterrupt


def test_what_was_interrupted_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_within(tmp_path / "1.0")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_one_left_is_not_in_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".1.0.partial" / "folder"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    (left.parent / "link").symlink_to(tmp_path)
    with whole(tmp_path / "1.0") as (folder, _):
        assert list(folder.iterdir()) == []
    assert list((tmp_path / "1.0").iterdir()) == []


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "1.0").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("1.0", "link"):
        with pytest.raises(ReleaseError, match=r"already exists.*--output"), whole(tmp_path / name):
            pytest.fail("it began")


def test_two_do_not_fill_the_same_folder(tmp_path: Path) -> None:
    with (
        whole(tmp_path / "1.0"),
        pytest.raises(ReleaseError, match=r"another '\./dev release'"),
        whole(tmp_path / "1.0"),
    ):
        pytest.fail("it began")
    assert (tmp_path / "1.0").is_dir()
