from pathlib import Path

import pytest

from sandbox.dev import parse, perform
from sandbox.errors import SandboxError
from sandbox.output_paths import check_file, check_folder


@pytest.mark.parametrize("command", [["image"], ["release", "--uncommitted"], ["docs"]], ids=lambda c: c[0])
def test_output_below_a_file(command, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name, arguments = parse([*command, "--output", "/dev/null/x"])
    with pytest.raises(SandboxError, match="--output /dev/null"):
        perform(name, arguments, tmp_path)  # where there is nothing that anything could be made of


@pytest.mark.parametrize("text", ["", ".", "/"])
def test_an_invalid_output_of_an_image(text: str, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(["image", "--output", text])
    assert f"argument --output: {text!r}" in capsys.readouterr().err


def test_a_file_needs_an_existing_folder_and_a_folder_may_be_new(tmp_path: Path, monkeypatch):
    with pytest.raises(SandboxError, match=r"no/x\.tar"):
        check_file(tmp_path / "no" / "x.tar")
    check_file(tmp_path / "x.tar")
    check_folder(tmp_path)
    check_folder(tmp_path / "new" / "er")
    monkeypatch.chdir(tmp_path)
    check_folder(Path("new/er"))
    check_file(Path("x.tar"))
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match=r"--output .*/file/below"):
        check_folder(tmp_path / "file" / "below")
    with pytest.raises(SandboxError, match=r"--output .*/file"):
        check_folder(tmp_path / "file")
