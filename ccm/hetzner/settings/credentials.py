"""Secrets from the environment or from files; files are read again when they change."""

from __future__ import annotations

from pathlib import Path


class Secret:
    """One secret.

    Kubernetes renews a mounted Secret by swapping a link, which changes the modification time or the inode;
    asking for both costs a microsecond, so it is done at every use. A file that vanishes for a moment, or is
    empty, leaves the old value in place. Who writes into the file empties it first, maybe within one tick of
    the clock that the modification time comes from, so the size counts too.

    Args:
        value: The secret, or what was read from the file at the start.
        path: The file that it comes from; None = it never changes.
    """

    def __init__(self, value: str, path: Path | None = None) -> None:
        self._value = value
        self._path = path
        self._version = _version(path)

    @property
    def value(self) -> str:
        """The secret as it is now."""
        version = _version(self._path)
        if self._path is not None and version is not None and version != self._version:
            try:
                text = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                return self._value
            self._version = version
            self._value = text or self._value
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"


def _version(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size
