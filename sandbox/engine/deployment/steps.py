"""The planner: what has to be done to one resource. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from sandbox.engine.display.operation import Op
from sandbox.engine.errors import EngineError, ProtectedError, UnsupportedError
from sandbox.engine.properties import paths
from sandbox.engine.properties.values import Properties
from sandbox.engine.providers.base import Diff
from sandbox.engine.state.graph import Alias
from sandbox.engine.state.resource import Resource


@dataclass(frozen=True)
class Goal:
    """What the program wants one resource to be.

    Attributes as in Pulumi's resource options. ``provider`` is a reference (URN and id), timeouts are
    seconds; ``delete_before_replace`` is None where the program leaves it to the provider.
    """

    urn: str
    type: str
    name: str
    custom: bool
    inputs: Properties
    parent: str = ""
    provider: str = ""
    version: str = ""
    dependencies: tuple[str, ...] = ()
    property_dependencies: dict[str, list[str]] = field(default_factory=dict)
    protect: bool = False
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    delete_before_replace: bool | None = None
    retain_on_delete: bool = False
    deleted_with: str = ""
    additional_secret_outputs: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()
    custom_timeouts: dict[str, float] = field(default_factory=dict)
    import_id: str = ""
    source_position: str = ""


@dataclass(frozen=True)
class Decision:
    """What to do, and why.

    Attributes:
        op: SAME, CREATE, UPDATE, REPLACE or IMPORT.
        delete_first: For REPLACE: the old one goes before the new one comes.
        keys: Paths that change.
    """

    op: Op
    delete_first: bool = False
    keys: tuple[str, ...] = ()


def merge_ignored(goal: Goal, old: Properties | None, news: Properties) -> Properties:
    """Inputs with old values where ``ignore_changes`` says so.

    Args:
        goal: What the program wants.
        old: Inputs of what is there; None: nothing is.
        news: Inputs that are wanted.
    """
    if old is not None:
        for path in goal.ignore_changes:
            news = paths.ignore(old, news, paths.parse(path))
    return news


def forced_replacements(
    goal: Goal,
    old: Resource,
    news: Properties,
    *,
    changes: bool,
    provider_replaced: bool,
    asked: bool = False,
) -> list[str]:
    """Reasons for a replacement that don't come from the provider.

    Args:
        goal: What the program wants.
        old: What is.
        news: The checked inputs.
        changes: The provider says that something changes; what it ignores replaces nothing.
        provider_replaced: The resource's provider now talks to another system.
        asked: The command line asks for it.
    """
    watched = goal.replace_on_changes if changes else ()
    reasons = [path for path in watched if paths.differ(old.inputs, news, paths.parse(path))]
    if provider_replaced:
        reasons.append("provider")
    if asked:
        reasons.append("--replace")
    return reasons


def decide(goal: Goal, old: Resource | None, diff: Diff | None, forced: Sequence[str] = ()) -> Decision:
    """Choose the operation for a resource.

    Args:
        goal: What the program wants.
        old: What is, or None.
        diff: The provider's comparison; not looked at where there is nothing to compare.
        forced: From ``forced_replacements``.

    Raises:
        ProtectedError: A protected resource would be replaced.
        EngineError: An imported one would.
    """
    if goal.import_id and old is None:
        return Decision(Op.IMPORT)
    if goal.import_id and old is not None and goal.import_id not in (old.id, old.import_id):
        raise UnsupportedError(f"importing '{goal.import_id}' over the existing resource '{goal.urn}'")
    if old is None or old.external or old.delete or old.pending_replacement:
        return Decision(Op.CREATE)
    reasons = tuple(dict.fromkeys([*(diff.replaces if diff else ()), *forced]))
    if reasons and goal.import_id:
        raise EngineError(
            f"'{goal.urn}' was imported and would have to be replaced ({', '.join(reasons)}): "
            "take 'import_' out of its resource options first"
        )
    if reasons:
        return _replacement(goal, old, diff, reasons)
    if (diff and diff.changes) or old.init_errors:
        return Decision(Op.UPDATE, keys=tuple(diff.keys if diff else ()))
    return Decision(Op.SAME)


def _replacement(goal: Goal, old: Resource, diff: Diff | None, reasons: tuple[str, ...]) -> Decision:
    if old.protect and goal.protect:  # one run may take the protection away and replace
        raise ProtectedError(goal.urn, "replaced")
    from_provider = bool(diff and diff.delete_before_replace)
    delete_first = from_provider if goal.delete_before_replace is None else goal.delete_before_replace
    known = tuple(diff.keys if diff else ())
    keys = known + tuple(reason for reason in reasons if not any(key.startswith(reason) for key in known))
    return Decision(Op.REPLACE, delete_first=delete_first, keys=keys)


def new_state(goal: Goal, inputs: Properties, outputs: Properties, identity: str) -> Resource:
    """The state that a goal leads to; the caller adds times."""
    state = msgspec.convert(goal, Resource, from_attributes=True)
    state.id, state.inputs, state.outputs = identity, inputs, outputs
    return state
