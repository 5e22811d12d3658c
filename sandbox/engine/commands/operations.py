"""``pulumi up``, ``preview``, ``refresh`` and ``destroy``."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.engine import BANNER
from sandbox.engine.display.terminal import Display
from sandbox.engine.errors import UsageError
from sandbox.engine.program.host import ProgramHost
from sandbox.engine.projects.workspace import Workspace, open_workspace
from sandbox.engine.session import Session
from sandbox.engine.state.secrets import passphrase

_TITLES = {"up": "Updating", "preview": "Previewing update", "refresh": "Refreshing", "destroy": "Destroying"}
_STACK_STAYS = """
The resources in the stack have been deleted, but its configuration is still kept.
If you want to remove the stack completely, run `pulumi stack rm {stack}`."""


def run(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> int:
    """Run an operation on a stack; 0, or 1 where it failed."""
    if arguments.parallel < 1:
        raise UsageError(f"--parallel: {arguments.parallel} is not allowed (at least 1)")
    workspace = open_workspace(folder, environment)
    stack = workspace.stack_name(arguments.stack)
    passphrase(environment)
    if arguments.operation != "preview" and not _agreed(arguments, workspace, stack):
        print("nothing was changed")
        return 1
    return _operate(arguments, workspace, stack, arguments.operation)


def _agreed(arguments: argparse.Namespace, workspace: Workspace, stack: str) -> bool:
    """Show a preview and ask, unless the command line says yes."""
    if arguments.yes or arguments.skip_preview:
        return True
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.non_interactive
    if not interactive:
        raise UsageError(
            "--yes or --skip-preview must be passed in to proceed when running in non-interactive mode"
        )
    if arguments.operation == "up" and _operate(arguments, workspace, stack, "preview"):
        return False
    if arguments.operation == "destroy":
        count = len(workspace.deployment(stack).get("resources") or [])
        print(f"This deletes all {count} resources of the stack '{stack}'.")
    answer = input(f"Do you want to perform this {arguments.operation} on '{stack}'? Type yes: ")
    return answer.strip().lower() == "yes"


def _operate(arguments: argparse.Namespace, workspace: Workspace, stack: str, operation: str) -> int:
    preview = operation == "preview"
    print(f"{BANNER}\n{_TITLES[operation]} ({stack}):", flush=True)
    live = sys.stdout.isatty() and not arguments.non_interactive
    display = Display(
        preview=preview,
        live=live,
        verbose=bool(arguments.verbose),
        refresh=operation == "refresh",
        colored=arguments.color != "never",
    )
    host = None
    if operation in ("up", "preview"):
        said = functools.partial(display.diagnostic, "info")
        host = ProgramHost(workspace.project.program, workspace.environment, said)
    try:
        with workspace.backend.locked(stack):
            session = Session(
                workspace,
                stack,
                display,
                preview=preview,
                parallel=arguments.parallel,
                refresh=None if arguments.refresh is None else arguments.refresh == "true",
                replace=getattr(arguments, "replace", ()),
            )
            before = session.outputs()
            if not preview:
                workspace.backend.keep_backup(stack)
            _start(session, operation, host)
            failed = session.run.failed is not None
            if not failed and not preview and getattr(arguments, "remove", False):
                workspace.remove(stack)
    except BaseException:
        display.abort()
        raise
    finally:
        if host is not None:
            host.kill()
    display.close(
        before,
        session.outputs(),
        failed=failed,
        show_secrets=arguments.show_secrets,
        outputs=not arguments.suppress_outputs,
    )
    if operation == "destroy" and not failed and not arguments.remove:
        print(_STACK_STAYS.format(stack=stack))
    return 1 if failed else 0


def _start(session: Session, operation: str, host: ProgramHost | None) -> None:
    if host is not None:
        session.up(host)
    elif operation == "refresh":
        session.refresh()
    else:
        session.destroy()
