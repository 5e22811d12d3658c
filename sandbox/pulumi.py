"""Runs the project's ``pulumi`` command: a genuine CLI where one is on PATH, else the embedded engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.console import Steps
from sandbox.engine.errors import EngineError
from sandbox.engine.projects.workspace import open_workspace
from sandbox.environment import STACKS, exports, merged
from sandbox.errors import SandboxError, StepFailed
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site


def environment(site: Site, built: Toolchain | None) -> dict[str, str]:
    """The variables that ``pulumi`` runs with."""
    own = exports(site, built.bin if built else None)
    quiet = {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    return merged(os.environ, {**own, **quiet})


def run(
    site: Site, variables: Mapping[str, str], arguments: Sequence[str], hint: str, *, quiet: bool = False
) -> None:
    """Run ``pulumi`` in the clone; its output goes to ours.

    Args:
        site: This clone's.
        variables: The environment.
        arguments: After ``pulumi``.
        hint: What to do when it fails.
        quiet: Print what it said only when it fails.

    Raises:
        StepFailed: It ended with an error.
        KeyboardInterrupt: Somebody pressed Ctrl-C, and it has ended.
    """
    command = [str(site.root / ".venv/bin/pulumi"), *arguments]
    into, with_it = (subprocess.PIPE, subprocess.STDOUT) if quiet else (None, None)
    with subprocess.Popen(
        command, cwd=site.root, env=dict(variables), text=True, stdout=into, stderr=with_it
    ) as child:
        try:
            said, _ = child.communicate()
            code = child.returncode
        except KeyboardInterrupt:
            # The terminal has told it, too: it finishes what it has begun and keeps that in its state. A
            # second Ctrl-C ends it at once.
            child.wait()
            raise
    if code:
        print(said or "", end="", file=sys.stderr)
        raise StepFailed(f"pulumi {arguments[0]}", code, hint)


def select_stack(site: Site, variables: Mapping[str, str], stack: str) -> None:
    """Make a stack if it is not there, and choose it."""
    run(site, variables, ["stack", "select", stack, "--create"], "See the message above", quiet=True)


def set_config(site: Site, variables: Mapping[str, str], stack: str, key: str, value: str) -> None:
    """Change one of a stack's settings."""
    arguments = ["config", "set", "--stack", stack, key, value]
    run(site, variables, arguments, "See the message above", quiet=True)


def clear_locks(site: Site, variables: Mapping[str, str], stack: str, steps: Steps) -> None:
    """Remove the locks that ended processes of this machine have left on a stack, and say so.

    The embedded engine passes over them, the genuine CLI refuses every command until ``pulumi cancel``.

    Raises:
        SandboxError: Somebody still works on the stack, or may: a process of another machine.
    """
    try:
        locks = open_workspace(site.root, variables).backend.locks(stack)
    except EngineError as error:
        raise SandboxError(str(error)) from error
    for lock in locks:
        if not lock.has_ended:
            # A number is given to another process once its own has ended.
            sure = f"if that process is no Pulumi, delete {lock.path}"
            elsewhere = f"if you are sure that it has: 'pulumi cancel --stack {stack}'"
            raise SandboxError(
                f"the stack '{stack}' is locked by {lock.holder}: wait for it to end; "
                + (sure if lock.runs_here else elsewhere)
            )
    for lock in locks:
        steps.note(f"• the stack '{stack}' was left locked by {lock.holder}, which has ended: pulumi cancel")
    if locks:
        run(site, variables, ["cancel", "--stack", stack, "--yes"], "See the message above", quiet=True)


def refuse_to_lose(site: Site, variables: Mapping[str, str]) -> None:
    """Make sure that the clone's folder of states holds nobody's but our own stacks'.

    Raises:
        SandboxError: There is the state of another stack, such as one with servers at Hetzner.
    """
    try:
        workspace = open_workspace(site.root, variables)
        others = [name for name in workspace.backend.stacks() if name not in STACKS.values()]
        kept = {name: _resources(workspace.deployment(name)) for name in others}
    except EngineError as error:
        raise SandboxError(str(error)) from error
    for name in (name for name, count in kept.items() if count):
        raise SandboxError(
            f"the stack '{name}' has {kept[name]} resources, and what is known of them lies in "
            f"{workspace.backend.folder}, which this would remove; 'pulumi destroy --stack {name}' first, or "
            f"take it elsewhere: 'pulumi stack export --stack {name} --show-secrets --file FILE', then "
            f"'pulumi stack rm --force --stack {name}'"
        )


def _resources(deployment: Mapping[str, Any]) -> int:
    """How many resources a state has, without the stack itself and its providers."""
    return sum(not item["type"].startswith("pulumi:") for item in deployment.get("resources") or [])


def forget_selection(site: Site, variables: Mapping[str, str]) -> None:
    """Remove the note in the user's home of which stack is selected here, where it is one of ours."""
    workspace = open_workspace(site.root, variables)
    for stack in STACKS.values():
        workspace.deselect(stack)
