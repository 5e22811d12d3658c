"""The table of environment variables, which the documentation is made of, against what is really read."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ccm.go import format_duration
from ccm.hetzner.settings import VARIABLES, Secret, environment
from ccm.hetzner.settings.variables import Variables


def seconds(default: float | None) -> str:
    return "" if default is None else format_duration(default)


class Recorder(Variables):
    """Notes everything that is asked for."""

    asked: dict[str, tuple[str, str]]

    def text(self, name: str, default: str = "") -> str:
        self._note(name, "text", default)
        return super().text(name, default)

    def boolean(self, name: str, *, default: bool) -> bool:
        self._note(name, "boolean", str(default).lower())
        return super().boolean(name, default=default)

    def optional_boolean(self, name: str) -> bool | None:
        self._note(name, "boolean", "")
        return super().optional_boolean(name)

    def duration(self, name: str, default: float | None) -> float | None:
        self._note(name, "duration", seconds(default))
        return super().duration(name, default)

    def integer(self, name: str, default: int | None) -> int | None:
        self._note(name, "number", "" if default is None else str(default))
        return super().integer(name, default)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        self._note(name, " or ".join(allowed), default)
        return super().choice(name, allowed, default)

    def any_case_choice(self, name: str, allowed: Collection[str]) -> str:
        self._note(name, " or ".join(allowed), "")
        return super().any_case_choice(name, allowed)

    def cidr(self, name: str) -> str:
        self._note(name, "CIDR", "")
        return super().cidr(name)

    def url(self, name: str, default: str) -> str:
        self._note(name, "URL", default)
        return super().url(name, default)

    def address(self, name: str, default: str) -> str:
        self._note(name, "address", default)
        return super().address(name, default)

    def secret(self, name: str) -> Secret | None:
        self._note(name, "secret", "")
        self._note(f"{name}_FILE", "file", "")
        return super().secret(name)

    def _note(self, name: str, kind: str, default: str) -> None:
        # The typed readers ask for the text themselves.
        self.asked.setdefault(name, (kind, default))


def test_the_table_is_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, tuple[str, str]] = {}
    monkeypatch.setattr(Recorder, "asked", asked, raising=False)
    monkeypatch.setattr(environment, "Variables", Recorder)
    environment.read({"HCLOUD_TOKEN": "t" * 64, "HCLOUD_NETWORK": "n"})
    files = {name for name, (kind, _) in asked.items() if kind == "file"}
    assert files == {f"{one.name}_FILE" for one in VARIABLES if one.kind == "secret"}
    read = {name: facts for name, facts in asked.items() if name not in files}
    assert read == {one.name: (one.kind, one.default) for one in VARIABLES}


def test_every_default_is_accepted_as_it_is_written() -> None:
    written = {one.name: one.default for one in VARIABLES if one.default}
    plain = environment.read({"HCLOUD_TOKEN": "t" * 64})
    told = environment.read({"HCLOUD_TOKEN": "t" * 64} | written)
    assert told.network == plain.network
    assert told.instances == plain.instances
    assert told.load_balancers == plain.load_balancers
    assert told.robot == plain.robot
