import os
from pathlib import Path

from image import build


def put(path: Path, used: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (used, used))
    return path


def test_what_was_used_last_stays_with_its_note(tmp_path):
    for number in range(build.KEPT + 3):
        put(tmp_path / f"app-{number}.tar.zst", number)
        put(tmp_path / f"app-{number}.json", 0)
    build.tidy(tmp_path)
    kept = {f"app-{number}" for number in range(3, build.KEPT + 3)}
    files = {f"{name}.{kind}" for name in kept for kind in ("tar.zst", "json")}
    assert {path.name for path in tmp_path.iterdir()} == files


def test_folders_and_packages_are_bounded_too(tmp_path):
    for number in range(4):
        put(tmp_path / f"python-{number}" / "usr" / "bin" / "python", 0)
        os.utime(tmp_path / f"python-{number}", (number, number))
    put(tmp_path / ".python-5.77" / "half", 0)  # of a build that was killed
    os.utime(tmp_path / ".python-5.77", (0, 0))
    for number in range(300):
        put(tmp_path / "packages" / f"{number}", number)
    build.tidy(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"python-2", "python-3", "packages"}
    assert min(int(path.name) for path in (tmp_path / "packages").iterdir()) == 100
