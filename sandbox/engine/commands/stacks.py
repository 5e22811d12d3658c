"""``pulumi stack …``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.engine import BANNER
from sandbox.engine.display.outputs import format_value, hide
from sandbox.engine.errors import StackNotFoundError, StateError, UsageError
from sandbox.engine.projects.workspace import Workspace, open_workspace
from sandbox.engine.properties.values import SIGNATURE, has_secret, is_secret, parts, transform
from sandbox.engine.state.backend import checked
from sandbox.engine.state.resource import STACK_TYPE
from sandbox.engine.state.snapshot import salt_of


def run(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> int:
    """Run a stack command; the exit status."""
    workspace = open_workspace(folder, environment)
    print(BANNER, file=sys.stderr)
    actions = {
        None: _show,
        "output": _output,
        "ls": _list,
        "export": _export,
        "import": _import,
        "init": _init,
        "select": _select,
        "rm": _remove,
    }
    actions[arguments.action](arguments, workspace)
    return 0


def cancel(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> int:
    """Remove the locks on a stack; the exit status."""
    workspace = open_workspace(folder, environment)
    print(BANNER, file=sys.stderr)
    stack = _name(arguments, workspace)
    _confirm(arguments, stack, "proceed", f"the locks on '{stack}'")
    workspace.backend.cancel(stack)
    print(f"The currently running update for '{stack}' has been canceled!")
    return 0


def _confirm(arguments: argparse.Namespace, stack: str, action: str, what: str) -> None:
    """Let a person type the stack's name, unless the command line says yes."""
    if arguments.yes:
        return
    if not sys.stdin.isatty() or arguments.non_interactive:
        raise UsageError(f"--yes must be passed in to {action} when running in non-interactive mode")
    if input(f"This removes {what}. Type its name: ").strip() != stack:
        raise UsageError("the name does not match; nothing was removed")


def _name(arguments: argparse.Namespace, workspace: Workspace) -> str:
    return workspace.stack_name(_given(arguments))


def _given(arguments: argparse.Namespace) -> str | None:
    """The stack that is named, be it by the option or by the argument."""
    if arguments.name and arguments.stack:
        raise UsageError(
            f"only one of --stack ('{arguments.stack}') and the argument ('{arguments.name}') may name it"
        )
    return arguments.name or arguments.stack


def _root_outputs(deployment: Mapping[str, Any]) -> dict[str, Any]:
    roots = [item for item in deployment.get("resources") or [] if item["type"] == STACK_TYPE]
    return (roots[0].get("outputs") or {}) if roots else {}


def _show(arguments: argparse.Namespace, workspace: Workspace) -> None:
    stack = workspace.stack_name(arguments.stack)
    deployment = workspace.deployment(stack)
    resources = deployment.get("resources") or []
    print(f"Current stack is {stack}:\n    Managed by {workspace.backend.folder}")
    if (deployment.get("manifest") or {}).get("time"):
        print(f"    Last updated: {deployment['manifest']['time']}")
    print(f"Current stack resources ({len(resources)}):")
    for resource in resources:
        print(f"    {resource['type']}  {resource['urn'].split('::', 3)[3]}")
        if arguments.show_urns:
            print(f"        URN: {resource['urn']}")
    if deployment.get("pending_operations"):
        print(
            f"{len(deployment['pending_operations'])} operations were interrupted; 'pulumi up' picks them up"
        )


def _output(arguments: argparse.Namespace, workspace: Workspace) -> None:
    stack = workspace.stack_name(arguments.stack)
    deployment = workspace.deployment(stack)
    outputs = _root_outputs(deployment)
    wanted = arguments.name
    if wanted is not None and wanted not in outputs:
        raise UsageError(
            f"the stack '{stack}' has no output '{wanted}' (it has: {', '.join(sorted(outputs)) or 'none'})"
        )
    show = arguments.show_secrets
    if show and any(has_secret(value) for key, value in outputs.items() if wanted in (None, key)):
        outputs = workspace.crypter(salt_of(deployment)).open(outputs, "")
    if arguments.json:
        shown = {
            key: hide(value, show_secrets=show) for key, value in outputs.items() if wanted in (None, key)
        }
        print(json.dumps(shown if wanted is None else shown[wanted], indent=2))
    elif wanted is not None:
        value = hide(outputs[wanted], show_secrets=show)
        print(value if isinstance(value, str) else json.dumps(value))
    else:
        print(f"Current stack outputs ({len(outputs)}):")
        for key in sorted(outputs):
            print(f"    {key}: {format_value(outputs[key], show_secrets=show)}")


def _list(arguments: argparse.Namespace, workspace: Workspace) -> None:
    rows = [_summary(workspace, stack) for stack in workspace.backend.stacks()]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'NAME':24}{'LAST UPDATE':36}RESOURCE COUNT")
    for row in rows:
        name = row["name"] + "*" * row["current"]
        print(f"{name:24}{row.get('lastUpdate', 'n/a'):36}{row['resourceCount']}")


def _summary(workspace: Workspace, stack: str) -> dict[str, Any]:
    """What the CLI's JSON has of a stack; of one that was never updated there is no time."""
    deployment = workspace.backend.load(stack) or {}
    updated = (deployment.get("manifest") or {}).get("time")
    return {
        "name": stack,
        "current": workspace.is_selected(stack),
        **({"lastUpdate": updated} if updated else {}),
        "resourceCount": len(deployment.get("resources") or []),
    }


def _export(arguments: argparse.Namespace, workspace: Workspace) -> None:
    deployment = workspace.deployment(workspace.stack_name(arguments.stack))
    if arguments.show_secrets:
        crypter = workspace.crypter(salt_of(deployment))

        def reveal(value: Any) -> Any:
            if not is_secret(value):
                return value
            return {SIGNATURE: value[SIGNATURE], "plaintext": crypter.decrypt(value["ciphertext"])}

        deployment = transform(deployment, reveal)
    text = json.dumps({"version": 3, "deployment": deployment}, indent=4)
    if arguments.file:
        Path(arguments.file).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


def _import(arguments: argparse.Namespace, workspace: Workspace) -> None:
    stack = workspace.stack_name(arguments.stack)
    current = workspace.deployment(stack)
    try:
        text = Path(arguments.file).read_text(encoding="utf-8") if arguments.file else sys.stdin.read()
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(f"{arguments.file or 'the input'}: can't be read: {error}") from error
    if not isinstance(data, dict) or data.get("version") != 3 or "deployment" not in data:
        raise StateError(f"{arguments.file or 'the input'} is no export of format 3")
    given = checked(data["deployment"], arguments.file or "the input")
    deployment = _resealed(workspace, stack, given, current)
    for resource in deployment.get("resources") or []:
        if resource["urn"].split("::")[0] != f"urn:pulumi:{stack}":
            raise StateError(f"the resource '{resource['urn']}' belongs to another stack than '{stack}'")
    with workspace.backend.locked(stack):
        workspace.backend.keep_backup(stack)
        workspace.backend.save(stack, deployment)
    print("Import complete.")


def _resealed(
    workspace: Workspace, stack: str, deployment: dict[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """Encrypt what an export with --show-secrets has in plain text."""
    if not any(is_secret(part) and "plaintext" in part for part in parts(deployment)):
        return deployment
    salt = salt_of(deployment) or salt_of(current) or workspace.stack_file(stack).salt
    crypter = workspace.crypter(salt)

    def reseal(part: Any) -> Any:
        if not is_secret(part) or "plaintext" not in part:
            return part
        return {SIGNATURE: part[SIGNATURE], "ciphertext": crypter.encrypt(part["plaintext"])}

    sealed = transform(deployment, reseal)
    sealed["secrets_providers"] = {"type": "passphrase", "state": {"salt": crypter.salt}}
    return sealed


def _init(arguments: argparse.Namespace, workspace: Workspace) -> None:
    given = _given(arguments)
    if not given:
        raise UsageError("missing stack name: pulumi stack init NAME")
    create(workspace, workspace.check_name(given))
    if not arguments.no_select:
        workspace.select(workspace.check_name(given))
    print(f"Created stack '{given}'")


def create(workspace: Workspace, stack: str) -> None:
    """Make an empty stack.

    The stack file is not touched: it gets a salt with the first secret value. So a committed stack file
    without secrets works in every clone, whatever its passphrase.

    Raises:
        UsageError: It exists.
    """
    if workspace.backend.load(stack) is not None:
        raise UsageError(f"stack '{stack}' already exists")
    workspace.backend.save(stack, None)


def _select(arguments: argparse.Namespace, workspace: Workspace) -> None:
    stack = _name(arguments, workspace)
    if workspace.backend.load(stack) is None:
        if not arguments.create:
            raise StackNotFoundError(stack)
        create(workspace, stack)
    workspace.select(stack)


def _check_empty(arguments: argparse.Namespace, workspace: Workspace, stack: str) -> None:
    resources = workspace.deployment(stack).get("resources") or []
    if resources and not arguments.force:
        raise UsageError(
            f"stack '{stack}' still has {len(resources)} resources; run 'pulumi destroy' first, or pass "
            "--force"
        )


def _remove(arguments: argparse.Namespace, workspace: Workspace) -> None:
    stack = _name(arguments, workspace)
    _check_empty(arguments, workspace, stack)
    _confirm(arguments, stack, "remove a stack", f"the stack '{stack}'")
    with workspace.backend.locked(stack):
        _check_empty(arguments, workspace, stack)  # while a person was asked, others may have made some
        workspace.remove(stack, keep_file=arguments.preserve_config or arguments.force)
    print(f"Stack '{stack}' has been removed!")
