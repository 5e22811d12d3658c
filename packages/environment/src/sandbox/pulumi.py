"""Runs Pulumi for this clone's stacks, after what a killed run has left has been put right."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from pulumi_plugins import shared
from pulumi_plugins.errors import ProviderError
from sandbox.console import Steps
from sandbox.environment import PROJECT, STACKS, exports, merged, pulumi_backend
from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.pulumi_cli import cli
from sandbox.pulumi_cli.states import Lock, States, of_all_projects
from sandbox.site import Clone, Site

_SECONDS = 300


def ensure(clone: Clone, progress: Callable[[str], None]) -> None:
    """Build the CLI if there is none on PATH; let the user's CLI download its plugins."""
    found = cli.ensure(clone.cache, os.environ, progress)
    cli.provide(found, clone.root, os.environ, progress)


def environment(site: Site, built: Toolchain | None) -> dict[str, str]:
    """The variables that ``pulumi`` runs with."""
    mine = merged(os.environ, exports(site, built.bin if built else None))
    found = cli.find(site.cache, os.environ)
    return {**mine, **cli.variables(found, site.root, os.environ)} if found else mine


def run(site: Site, variables: Mapping[str, str], arguments: Sequence[str], hint: str) -> None:
    """Run ``pulumi`` in the clone; its output goes to ours. After Ctrl-C, raises once Pulumi has ended."""
    ours = variables.get("PULUMI_HOME") == str(cli.home_of(site.root))
    with (
        shared.serving(variables, site.root, cli.PROGRAM) if ours else nullcontext({}) as more,
        subprocess.Popen(_command(site, arguments), cwd=site.root, env={**variables, **more}) as child,
    ):
        try:
            code = child.wait()
        except KeyboardInterrupt:
            # The terminal interrupts Pulumi, too: it finishes its operations and saves its state. A
            # second Ctrl-C ends it at once.
            child.wait()
            raise
    if code:
        raise SandboxError(f"pulumi {arguments[0]} failed (exit code {code}). {hint}")


def select_stack(site: Site, variables: Mapping[str, str], stack: str) -> None:
    """Make a stack if it is not there, and choose it. Nothing is run where it is chosen already."""
    if stack in _states(site).stacks() and cli.selected(variables) == stack:
        return
    _ask(site, variables, ["stack", "select", stack, "--create"])


def set_config(site: Site, variables: Mapping[str, str], stack: str, key: str, value: str) -> None:
    """Change one of a stack's settings."""
    _ask(site, variables, ["config", "set", "--stack", stack, key, value])


def heal(site: Site, variables: Mapping[str, str], stack: str, steps: Steps) -> None:
    """Remove and report what a killed run has left on a stack: locks, and what it was creating."""
    states = _states(site)
    locks = states.locks(stack)
    _refuse_beside_others(locks, stack)
    states.repair()
    for lock in locks:
        steps.note(
            f"• the lock of the stack '{stack}' belongs to {lock.holder}, but this process has ended. "
            "Running 'pulumi cancel'"
        )
    if locks:
        _ask(site, variables, ["cancel", "--stack", stack, "--yes"])
    if states.was_interrupted(stack):
        from pulumi_plugins.hcloud.provider import delete_begun  # noqa: PLC0415  only after a kill

        exported = _ask(site, variables, ["stack", "export", "--stack", stack])
        try:
            deleted = delete_begun(json.loads(exported)["deployment"], variables)
        except ProviderError as error:
            raise SandboxError(str(error)) from error
        for name in deleted:
            steps.note(f"• Pulumi was killed while it created '{name}'; deleted '{name}'")
        # an import drops the notes of what was begun, which would stay for good
        _ask(site, variables, ["stack", "import", "--stack", stack], exported)


def refuse_to_lose(site: Site) -> None:
    """Refuse to delete states of stacks that aren't the sandbox's, of any project: after ``./dev env``, all
    projects keep their states here.
    """
    for states in of_all_projects(pulumi_backend(site)):
        for stack in states.stacks():
            if states.project == PROJECT and stack in STACKS.values():
                continue
            if count := states.resources(stack):
                raise SandboxError(
                    f"the stack '{stack}' of the project '{states.project}' has {count} resources. Its state "
                    f"is in {states.folder}, and this command would delete that folder. In the folder of the "
                    f"project, run 'eval \"$({site.root}/dev env)\"' and 'pulumi destroy --stack {stack}' "
                    f"first. To keep the state: 'pulumi stack export --stack {stack} --show-secrets --file "
                    f"FILE'. To delete the state but not its resources: 'PULUMI_BACKEND_URL=file://"
                    f"{states.folder} pulumi stack rm --force --stack organization/{states.project}/{stack}'"
                )


def forget_selection(site: Site, variables: Mapping[str, str]) -> None:
    """Unselect the clone's stack in the user's Pulumi home, if the selected stack is one of ours."""
    if variables.get("PULUMI_HOME") == str(cli.home_of(site.root)):
        return  # it goes with the home
    if cli.find(site.cache, os.environ) is None:
        return
    selected = _say(site, variables, ["stack", "--show-name"])
    if selected.returncode == 0 and selected.stdout.strip() in STACKS.values():
        _ask(site, variables, ["stack", "unselect"])


def _refuse_beside_others(locks: Sequence[Lock], stack: str) -> None:
    for lock in locks:
        if lock.runs is not False:
            # A number is given to another process once its own has ended.
            sure = f"if that process is not Pulumi, delete {lock.path}"
            elsewhere = f"if the process has already ended, run 'pulumi cancel --stack {stack}'"
            raise SandboxError(
                f"the stack '{stack}' is locked by {lock.holder}: wait until the process ends; "
                + (sure if lock.runs else elsewhere)
            )


def _states(site: Clone) -> States:
    return States(pulumi_backend(site), PROJECT)


def _command(site: Site, arguments: Sequence[str]) -> list[str]:
    found = cli.ensure(site.cache, os.environ, lambda line: print(f"• {line}", file=sys.stderr))
    return [str(found.path), *arguments]


def _say(
    site: Site, variables: Mapping[str, str], arguments: Sequence[str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(site, [*arguments, "--non-interactive"]),
        cwd=site.root,
        env=dict(variables),
        input=given,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _ask(site: Site, variables: Mapping[str, str], arguments: Sequence[str], given: str = "") -> str:
    """What ``pulumi`` prints; what it says of a failure goes to stderr."""
    done = _say(site, variables, arguments, given)
    if done.returncode:
        print(done.stdout + done.stderr, end="", file=sys.stderr)
        raise SandboxError(
            f"pulumi {arguments[0]} failed with exit code {done.returncode}; see the output above"
        )
    return done.stdout
