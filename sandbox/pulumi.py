"""Runs the project's ``pulumi`` command: a genuine CLI where one is on PATH, else the embedded engine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from sandbox.environment import exports, merged
from sandbox.errors import StepFailed
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site


def environment(site: Site, built: Toolchain | None) -> dict[str, str]:
    """The variables that ``pulumi`` runs with."""
    own = exports(site, built.bin if built else None)
    quiet = {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    return merged(os.environ, {**own, **quiet})


def run(site: Site, variables: Mapping[str, str], arguments: Sequence[str], hint: str) -> None:
    """Run ``pulumi`` in the clone; its output goes to ours.

    Args:
        site: this clone's.
        variables: the environment.
        arguments: after ``pulumi``.
        hint: what to do when it fails.

    Raises:
        StepFailed: it ended with an error.
    """
    command = [str(site.root / ".venv/bin/pulumi"), *arguments]
    code = subprocess.run(command, cwd=site.root, env=dict(variables), check=False).returncode
    if code:
        raise StepFailed(f"pulumi {arguments[0]}", code, hint)


def select_stack(site: Site, variables: Mapping[str, str], stack: str) -> None:
    """Make a stack if it is not there, and choose it."""
    run(site, variables, ["stack", "select", stack, "--create"], "See the message above")
