"""An unprepared machine: a bare Debian in a folder, entered by chroot, for one shell script.

It has python3, its venv module, git and certificates, and of this machine nothing but what reaches the
package registries (configuration of apt and pip, proxies, certificates) and what takes long to build: the
Kubernetes toolchain and the images of the cache. Its processes end with the script. By hand:

    .venv/bin/python -m tests.judges.bare_machine trixie visitor './dev up && ./dev status; ./dev down'
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.kubernetes.debian import host_options, suite_sources
from sandbox.kubernetes.processes import run
from sandbox.kubernetes.toolchain import locked
from sandbox.site import cache_directory
from tests import child_processes

PACKAGES = ("ca-certificates", "git", "python3", "python3-venv")
USERS = {"root": "/root", "visitor": "/home/visitor"}
BASE_SECONDS = 900
SHARED = ("toolchain", "image", "ccm-image")
KEPT_VARIABLES = ("GOPROXY", "GOSUMDB", "GOFLAGS", "SSL_CERT_FILE", "PIP_", "UV_")
KEPT_VARIABLES += ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
TREE = Path(__file__).resolve().parents[2]
SECONDS = 2000
# Whatever happens, nothing of this machine's may stay.
SCRIPT = "trap './dev down --force >/dev/null 2>&1 || true' EXIT; set -e; {commands}; ./dev down; trap - EXIT"
FILES = ("etc/pip.conf", "etc/resolv.conf", "etc/hosts")
FOLDERS = ("etc/ssl/certs", "etc/apt/apt.conf.d", "etc/apt/auth.conf.d")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Everything happens in one mount namespace and one process namespace, with which mounts and processes go.
ENTER = """
root=$1 user=$2 home=$3 access=$4 script=$5 folders=$6; shift 6
mount -t proc proc "$root/proc"
for folder in sys dev; do mount --rbind "/$folder" "$root/$folder"; done
printf '%s' "$folders" | while IFS= read -r line; do
  mkdir -p "$root${line#*:}"
  mount --bind "${line%%:*}" "$root${line#*:}"
  [ "$access" = rw ] || mount -o remount,bind,ro "$root${line#*:}"
done
cd "$root"
exec chroot --userspec="$user" "$root" /usr/bin/env -i HOME="$home" LANG=C.UTF-8 "$@" \
  bash -c "cd ~/project && $script"
"""


@dataclass(frozen=True)
class BareMachine:
    """A bare Debian in a folder, with a clone in ``~/project`` of its user: ``root`` or ``visitor``."""

    root: Path
    user: str

    @property
    def home(self) -> Path:
        return Path(USERS[self.user])

    def run(self, script: str, seconds: float, *, capture: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script of bash, one line, in the clone; returns both output streams in one, or shows them."""
        cache = cache_directory(os.environ)
        shared = [f"{cache / name}:{self.home}/.cache/ccm-from-scratch/{name}" for name in SHARED]
        folders = [line for line in shared if Path(line.partition(":")[0]).is_dir()]
        folders += [f"{folder}:{folder}" for folder in _local_packages()]
        access = "rw" if self.user == "root" else "ro"
        own = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        command = [*own, "bash", "-euc", ENTER, "bare-machine"]
        lines = "".join(f"{folder}\n" for folder in folders)
        arguments = [str(self.root), self.user, str(self.home), access, script, lines]
        return subprocess.run(
            [*command, *arguments, f"PATH={PATH}", *_variables()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            timeout=seconds,
            check=False,
        )


def _variables() -> list[str]:
    names = [name for name in os.environ if name.upper().startswith(KEPT_VARIABLES)]
    return [f"{name}={os.environ[name]}" for name in names]


def _local_packages() -> list[Path]:
    """Folders of this machine in which pip searches for packages."""
    done = child_processes.run([sys.executable, "-m", "pip", "config", "list"])
    values = [line.partition("=")[2].strip("'") for line in done.stdout.splitlines() if "find-links" in line]
    words = [word for value in (*values, os.environ.get("PIP_FIND_LINKS", "")) for word in value.split()]
    return sorted({Path(word) for word in words if word.startswith("/") and Path(word).is_dir()})


def base(suite: str) -> Path:
    """The plain Debian that machines are copies of; made once and kept in the cache."""
    folder = cache_directory(os.environ) / "bare-machines"
    target = folder / suite
    with locked(folder / "lock", "a bare Debian", print):
        if not target.is_dir():
            _make(suite, target)
    return target


def _make(suite: str, target: Path) -> None:
    new, sources = target.with_suffix(".new"), target.with_suffix(".sources")
    shutil.rmtree(new, ignore_errors=True)
    text = apt_sources(suite)
    sources.write_text(text)
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", *host_options()]
    command += [f"--include={','.join(PACKAGES)}", suite, str(new), *([str(sources)] if text else [])]
    run(f"a bare Debian {suite}", command, progress=print, timeout=BASE_SECONDS)
    if text:  # what it is updated from is what it was made from
        (new / "etc/apt/sources.list").unlink(missing_ok=True)
        listed = new / "etc/apt/sources.list.d"
        for file in listed.iterdir():
            file.unlink()
        shutil.copy(sources, listed / ("debian.sources" if "Types:" in text else "debian.list"))
    subprocess.run(["useradd", "--root", str(new), "--create-home", "visitor"], check=True, timeout=30)
    new.rename(target)


def apt_sources(suite: str, folder: Path = Path("/etc/apt")) -> str:
    """This machine's package sources, for a suite of Debian; empty if the machine doesn't run Debian."""
    release = platform.freedesktop_os_release()
    own = release.get("VERSION_CODENAME", suite)
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.sources"))]
    texts = [suite_sources(file.read_text().replace(own, suite), suite) for file in files if file.is_file()]
    return "\n".join(text for text in texts if text)


@contextlib.contextmanager
def bare_machine(suite: str, user: str, files: Sequence[Path], tree: Path) -> Iterator[BareMachine]:
    """A new machine, for the time of a block; the user's clone consists of these files of the tree."""
    debian = base(suite)
    temporary = Path(tempfile.mkdtemp(prefix="run-", dir=debian.parent))
    try:
        root = temporary / "root"
        subprocess.run(["cp", "-a", str(debian), str(root)], check=True, timeout=300)
        machine = BareMachine(root, user)
        _configure(root)
        _clone(machine, files, tree)
        yield machine
    finally:
        # A mount that is left would be another file system.
        subprocess.run(["rm", "-rf", "--one-file-system", str(temporary)], check=True, timeout=600)


def session(suite: str, user: str, *commands: str) -> str:
    """What a session on a new machine prints, in a clone of this tree; its sandbox is removed at the end."""
    with bare_machine(suite, user, tracked(TREE), TREE) as machine:
        done = machine.run(SCRIPT.format(commands="; ".join(commands)), SECONDS)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "nothing is left of site" in done.stdout
    return done.stdout


def _configure(root: Path) -> None:
    """How package registries are reached from here."""
    for path in FOLDERS:
        if Path("/", path).is_dir():
            (root / path).mkdir(parents=True, exist_ok=True)
            copy = ["cp", "-a", "--remove-destination", f"/{path}/.", f"{root / path}/"]
            subprocess.run(copy, check=True, timeout=60)
    for path in FILES:
        if Path("/", path).is_file():
            shutil.copyfile(Path("/", path), root / path)


def _clone(machine: BareMachine, files: Sequence[Path], tree: Path) -> None:
    home = machine.root / machine.home.relative_to("/")
    for file in files:
        (home / "project" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / file, home / "project" / file, follow_symlinks=False)
    (home / ".cache/ccm-from-scratch").mkdir(parents=True)
    git = ["git", "-C", str(home / "project")]
    for arguments in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run([*git, *arguments], check=True, timeout=60)
    subprocess.run(["chown", "-R", f"--reference={home}", str(home)], check=True, timeout=60)


def tracked(tree: Path) -> list[Path]:
    """The files of a tree as it is now, uncommitted ones included, ignored ones not."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = child_processes.run(command, cwd=tree, check=True)
    names = filter(None, listed.stdout.split("\0"))
    return [Path(name) for name in names if (tree / name).is_file() or (tree / name).is_symlink()]


def main() -> int:
    """Run one script on a new machine: SUITE USER SCRIPT."""
    suite, user, script = sys.argv[1:]
    tree = Path(__file__).resolve().parents[2]
    with bare_machine(suite, user, tracked(tree), tree) as machine:
        return machine.run(script, 3600, capture=False).returncode


if __name__ == "__main__":
    sys.exit(main())
