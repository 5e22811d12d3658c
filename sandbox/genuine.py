"""A genuine Pulumi CLI on this machine, and whether the plugins are there that the program's SDKs want."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import Any

from sandbox.errors import MissingRequirement

PACKAGES = ("hcloud", "kubernetes")
SECONDS = 30


@dataclass(frozen=True)
class Plugin:
    """What is known of a plugin that an SDK of this environment wants.

    Attributes:
        name: Such as ``hcloud``.
        wanted: The version of the SDK; the CLI takes this one or a newer one.
        found: The versions that are installed.
        on_path: A plugin on PATH, which the CLI takes whatever its version.
    """

    name: str
    wanted: str
    found: tuple[str, ...]
    on_path: str | None = None

    @property
    def is_there(self) -> bool:
        """Tell whether the CLI needs to download nothing."""
        return self.on_path is not None or any(_key(item) >= _key(self.wanted) for item in self.found)


def cli_version(cli: Path, environment: Mapping[str, str]) -> str:
    """What ``pulumi version`` says, such as ``v3.259.0``.

    Raises:
        MissingRequirement: It is no Pulumi CLI that works.
    """
    said = _ask(cli, ["version"], environment).strip()
    if not re.fullmatch(r"v?\d+\.\d+\.\d+\S*", said):
        raise MissingRequirement(f"{cli} version: {said[:80]!r} is no version")
    return said


def plugins(cli: Path, environment: Mapping[str, str]) -> list[Plugin]:
    """The plugins that this environment's SDKs want, from ``pulumi plugin ls --json`` and PATH.

    Raises:
        MissingRequirement: It is no Pulumi CLI that works.
    """
    said = _ask(cli, ["plugin", "ls", "--json"], environment)
    try:
        installed = installed_resources(json.loads(said))
    except (ValueError, TypeError, KeyError) as error:
        raise MissingRequirement(f"{cli} plugin ls --json: can't be understood: {error}") from error
    path = environment.get("PATH")
    return [
        Plugin(
            name,
            metadata.version(f"pulumi-{name}"),
            tuple(installed.get(name, ())),
            which(f"pulumi-resource-{name}", path=path),
        )
        for name in PACKAGES
    ]


def installed_resources(listed: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Versions by name of the resource plugins in what ``pulumi plugin ls --json`` prints."""
    found: dict[str, list[str]] = {}
    for item in listed:
        if item["kind"] == "resource":
            found.setdefault(item["name"], []).append(str(item["version"]))
    return found


def _key(version: str) -> tuple[int, ...]:
    """Of a semantic version, for comparisons; what follows the three numbers does not count."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, numbers.groups())) if numbers else ()


def _ask(cli: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    quiet = {**environment, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            [str(cli), *arguments],
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingRequirement(f"{cli} does not run: {error}") from error
    if done.returncode:
        raise MissingRequirement(f"{cli} {' '.join(arguments)} failed: {done.stderr.strip()[:200]}")
    return done.stdout
