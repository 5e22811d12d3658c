"""Reads the variables of the table from an environment, and collects everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccm.hetzner.settings.credentials import Secret
from ccm.hetzner.settings.kinds import SECRET, LeftOut
from ccm.hetzner.settings.table import VARIABLES, Variable

_HIDDEN = "[secret]"


class Variables:
    """An environment, by the names of the table. White space around texts is dropped; empty is not set.

    Attributes:
        problems: A sentence for each wrong variable that was asked for.
        warnings: A sentence for each that is odd, and accepted because the official CCM accepts it.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._table = {one.name: one for one in VARIABLES}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def __getitem__(self, name: str) -> Any:
        """The value of a variable as its kind reads it; its default if it is not set, or wrong.

        A secret is a :class:`Secret`, or None if neither it nor its file is set.
        """
        variable = self._table[name]
        if variable.kind is SECRET:
            return self._secret(name)
        try:
            return _parse(variable, self._text(name) or variable.default)
        except LeftOut as odd:
            self.warnings.append(f"{name}: {odd}")
            return variable.kind.unset
        except ValueError as wrong:
            self.problems.append(f"{name}: {wrong}")
            return _parse(variable, variable.default)

    def shown(self) -> dict[str, str]:
        """All variables by name, defaults included, as texts without secrets."""
        shown = {one.name: self._text(one.name) or one.default for one in VARIABLES}
        for name in (one.name for one in VARIABLES if one.kind is SECRET):
            shown[name] = _HIDDEN if shown[name] or self._text(f"{name}_FILE") else ""
        return shown

    def _text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def _secret(self, name: str) -> Secret | None:
        """From ``name``, or from the file that ``name_FILE`` tells."""
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
