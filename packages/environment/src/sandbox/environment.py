"""The environment variables with which any client works on this site at once."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from hetzner_emulator.address import client_variables, past_proxies
from sandbox.pulumi_cli.states import States
from sandbox.site import Clone, Site, passphrase

PROJECT = "ccm-from-scratch"
"""The name in ``Pulumi.yaml``."""
MACHINES, HOLLOW = "machines", "hollow"
STACKS = {MACHINES: "local", HOLLOW: "hollow"}
"""The stack of each kind of environment. Its initial settings are in ``stacks/<stack>.yaml``."""


def exports(site: Site, toolchain: Path | None) -> dict[str, str]:
    """What ``./dev env`` prints and what our own commands run with."""
    path = [str(site.root / ".venv/bin")] + ([str(toolchain)] if toolchain else [])
    return {
        **client_variables(site.endpoint, site.token),
        "KUBECONFIG": str(site.kubeconfig),
        "PULUMI_BACKEND_URL": f"file://{pulumi_backend(site)}",
        "PULUMI_CONFIG_PASSPHRASE": passphrase(site),
        "PATH": os.pathsep.join(path),
        **past_proxies(os.environ, site.public_range),
    }


def pulumi_backend(site: Clone) -> Path:
    """The folder with the states of stacks; made if it is not there."""
    folder = site.state / "pulumi"
    folder.mkdir(exist_ok=True)
    return folder


def kinds_there(site: Clone) -> list[str]:
    """The kinds of environment that have been brought up here since the last ``./dev down``."""
    ours = States(pulumi_backend(site), PROJECT).stacks()
    return [kind for kind, stack in STACKS.items() if stack in ours]


def merged(base: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """An environment for a child process: ``added`` on top of ``base``, PATH in front of its PATH."""
    path = os.pathsep.join(part for part in (added["PATH"], base.get("PATH", os.defpath)) if part)
    return {**base, **added, "PATH": path}


def shell_lines(added: Mapping[str, str]) -> list[str]:
    """Lines that a POSIX shell evaluates; PATH keeps what it had."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in added.items() if name != "PATH"]
    return [*lines, f'export PATH={shlex.quote(added["PATH"])}:"$PATH"']
