"""The Pulumi CLI and its plugins: which ones there are, and what they run with.

Official ones win: a ``pulumi`` on PATH, plugins on PATH or in the home folder of Pulumi. Where the CLI is
missing, the toolchain builds it. Where a plugin is missing, the clone's own Pulumi home has the sandbox's.
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pulumi_plugins
from pulumi_plugins import shared
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import PULUMI

PACKAGES = ("hcloud", "kubernetes")
HOME = "pulumi-home"
PROGRAM = "infra.__main__"
_OURS = (b"sandbox.pulumi_cli", b"sandbox.engine")  # of an earlier version
_SCRIPT_BYTES = 64 << 10  # a console script is far smaller, the CLI far larger
_INSTALL_SECONDS = 120


@dataclass(frozen=True)
class Cli:
    """A Pulumi CLI."""

    path: Path  # the program
    built: bool  # the toolchain has built it; else it is the user's


def find_on_path(environment: Mapping[str, str]) -> Path | None:
    """The first ``pulumi`` on PATH that is not this project's command, of this or of another clone."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        candidate = shutil.which("pulumi", path=folder or ".")
        if candidate and not _is_ours(Path(candidate)):
            return Path(candidate)
    return None


def find(cache: Path, environment: Mapping[str, str]) -> Cli | None:
    """The CLI to use, or None if there is none on PATH and none has been built."""
    if official := find_on_path(environment):
        return Cli(official, built=False)
    built = toolchain.find(cache, (PULUMI,))
    return Cli(built.bin / "pulumi", built=True) if built else None


def ensure(cache: Path, environment: Mapping[str, str], progress: Callable[[str], None]) -> Cli:
    """The CLI to use, built in the cache if it is missing; raises SandboxError if that fails."""
    return find(cache, environment) or Cli(
        toolchain.ensure(cache, progress, (PULUMI,)).bin / "pulumi", built=True
    )


@dataclass(frozen=True)
class Plugin:
    """A plugin that the Python SDKs of this environment want."""

    name: str  # such as ``hcloud``
    version: str  # of the SDK; the CLI takes this one and no other
    official: Path | None  # the official plugin: a program on PATH, or in Pulumi's home; None if missing


def plugins(environment: Mapping[str, str]) -> list[Plugin]:
    """The plugins that the program needs, and whether there are official ones."""
    home = Path(environment.get("PULUMI_HOME") or Path(environment.get("HOME", "/"), ".pulumi"))
    found = []
    for name in PACKAGES:
        version, program = metadata.version(f"pulumi-{name}"), f"pulumi-resource-{name}"
        on_path = shutil.which(program, path=environment.get("PATH"))
        official = Path(on_path or home / "plugins" / f"resource-{name}-v{version}" / program)
        found.append(Plugin(name, version, official if official.is_file() else None))
    return found


def variables(cli: Cli, root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What the CLI runs with beside the environment.

    The user's own CLI downloads missing plugins, unless :func:`provide` has found that it can't.
    """
    quiet = {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    wanted = plugins(environment)
    home = home_of(root)
    if all(plugin.official for plugin in wanted) or not (cli.built or home.is_dir()):
        return quiet
    place(home, root, wanted)
    return {**quiet, "PULUMI_HOME": str(home)}


def place(home: Path, root: Path, wanted: Sequence[Plugin]) -> None:
    """Put plugins into a Pulumi home: links to the official ones, or the clone's own.

    Another process may do the same meanwhile.
    """
    python = shlex.quote(str(root / ".venv/bin/python"))
    attach = shlex.quote(str(Path(pulumi_plugins.__file__).with_name("attach.py")))
    socket = f"${shared.VARIABLE}"
    for plugin in wanted:
        folder = home / "plugins" / f"resource-{plugin.name}-v{plugin.version}"
        target = folder / f"pulumi-resource-{plugin.name}"
        script = (
            f'[ -z "{socket}" ] || exec {python} -I -S {attach} "{socket}" {plugin.name} "$@"\n'
            f'exec {python} -P -m pulumi_plugins.serve {plugin.name} "$@"'
        )
        if plugin.official:
            script = f'exec {shlex.quote(str(plugin.official))} "$@"'
        text = f"#!/bin/sh\n{script}\n"
        if not target.is_file() or target.read_text() != text:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{os.getpid()}"
            temporary.write_text(text)
            temporary.chmod(0o755)
            temporary.replace(target)


def provide(cli: Cli, root: Path, environment: Mapping[str, str], progress: Callable[[str], None]) -> None:
    """Let the user's own CLI download missing official plugins, once for an environment.

    If that fails, as without the Internet, the sandbox's plugins are used from now on.
    """
    if cli.built or home_of(root).is_dir():
        return
    for plugin in plugins(environment):
        if plugin.official is None:
            progress(f"plugin {plugin.name} {plugin.version}")
            command = [str(cli.path), "plugin", "install", "resource", plugin.name, plugin.version]
            quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
            try:
                subprocess.run(command, env=dict(environment), timeout=_INSTALL_SECONDS, check=True, **quiet)
            except (OSError, subprocess.SubprocessError):
                home_of(root).mkdir(parents=True)
                return


def home_of(root: Path) -> Path:
    """The clone's own Pulumi home, in which the sandbox's plugins are; goes with './dev down'."""
    return root / ".sandbox" / HOME


def selected(environment: Mapping[str, str]) -> str:
    """The stack that is selected in a clone's own Pulumi home; empty where it is another home, or none is."""
    home = Path(environment.get("PULUMI_HOME", "/"))
    if home.name != HOME:
        return ""
    for path in home.glob("workspaces/*.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            kept = json.loads(path.read_text()).get("stacks", {})
            return str(kept.get(environment.get("PULUMI_BACKEND_URL"), "")).rpartition("/")[2]
    return ""


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_SCRIPT_BYTES)
    except OSError:
        return True  # unreadable: not something to hand over to
    return head.startswith(b"#!") and any(name in head for name in _OURS)
