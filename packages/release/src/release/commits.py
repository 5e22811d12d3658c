"""What git says of the tree that is released, and a copy of exactly that."""

import io
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from image.errors import ToolError
from release.errors import ReleaseError
from release.programs import run


@dataclass(frozen=True)
class Commit:
    """What is checked out."""

    id: str
    tree: str  # of its content: two commits with the same files have the same
    time: int  # when it was committed, in seconds since 1970


def checked_out(root: Path) -> Commit:
    """The commit of a clone."""
    try:
        said = run("git show", ["git", "show", "-s", "--format=%H %T %ct", "HEAD"], cwd=root).decode()
    except ToolError as error:
        raise ReleaseError(f"{root} isn't a Git clone with at least one commit: {error}") from error
    commit, tree, time = said.split()
    return Commit(commit, tree, int(time))


def changes(root: Path) -> list[str]:
    """Changed, deleted and untracked files, without the ignored ones."""
    said = run("git status", ["git", "status", "--porcelain=v1", "-z", "--no-renames"], cwd=root)
    return [entry[3:] for entry in said.decode(errors="replace").split("\0") if entry]


def export(root: Path, folder: Path, commit: str = "HEAD") -> None:
    """Write the files of a commit into a new folder."""
    # no files that others may write, for any user who unpacks them
    command = ["git", "-c", "tar.umask=022", "archive", "--format=tar", commit]
    content = run("git archive", command, cwd=root)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        # as an attribute: the Python of Debian 12 has no filters, and takes no argument for them
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)  # noqa: S202 - made by us


def copy(root: Path, folder: Path) -> None:
    """Writes the files of a tree as they are now, save for ignored ones, into a new folder."""
    listed = run("git ls-files", ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=root)
    for name in sorted(set(listed.decode().split("\0")) - {""}):
        # a link is infra/.venv, where Pulumi looks for Python
        if (root / name).is_file() or (root / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)
