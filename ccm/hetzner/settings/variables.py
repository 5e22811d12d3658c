"""Parses the variables of the table in an environment, and collects all mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccm.hetzner.settings.kinds import SECRET, LeftOut
from ccm.hetzner.settings.variable_table import VARIABLES, Variable

_HIDDEN = "[secret]"


class Variables:
    """An environment with parsed values by name. White space around texts is removed; empty = not set."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._table = {variable.name: variable for variable in VARIABLES}
        self.problems: list[str] = []  # a message for each invalid variable that was accessed
        # a message for each probable mistake that we accept, as the official CCM does
        self.warnings: list[str] = []

    def __getitem__(self, name: str) -> Any:
        """The value of a variable, or its default if it is unset or invalid. An unset secret is None."""
        variable = self._table[name]
        if variable.kind is SECRET:
            return self._secret(name)
        try:
            return _parse(variable, self._text(name) or variable.default)
        except LeftOut as undecodable:
            self.warnings.append(f"{name}: {undecodable}")
            return variable.kind.unset
        except ValueError as wrong:
            self.problems.append(f"{name}: {wrong}")
            return _parse(variable, variable.default)

    def shown(self) -> dict[str, str]:
        """All variables by name, including defaults, as texts without secrets."""
        shown = {variable.name: self._text(variable.name) or variable.default for variable in VARIABLES}
        for name in (variable.name for variable in VARIABLES if variable.kind is SECRET):
            shown[name] = _HIDDEN if shown[name] or self._text(f"{name}_FILE") else ""
        return shown

    def _text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def _secret(self, name: str) -> Secret | None:
        """The secret in ``name``, or in the file ``name_FILE``."""
        value, path = self._text(name), self._text(f"{name}_FILE")
        if value or not path:
            return Secret(value) if value else None
        try:
            content = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            self.problems.append(f"{name}_FILE: {path!r} is not a readable file ({reason})")
            return Secret("")
        return Secret(content, Path(path))


def _parse(variable: Variable, text: str) -> Any:
    return variable.kind.parse(text) if text else variable.kind.unset


class Secret:
    """A secret. ``value`` is read again when the file at ``path`` changes; None = no file.

    Kubernetes updates a mounted Secret by swapping a link, which changes the modification time or the inode.
    Each access checks both, which needs a microsecond. While the file is missing or empty, the old value
    stays. A program that writes the file truncates it first, maybe without a change of the modification time,
    so the size is also checked.
    """

    def __init__(self, value: str, path: Path | None = None) -> None:
        self._value = value
        self._path = path
        self._version = _version(path)

    @property
    def value(self) -> str:
        """The current secret."""
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
