"""Doing what the planner has decided for one resource: create, update, replace, import, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.engine.deployment import steps
from sandbox.engine.deployment.deletion import delete_one
from sandbox.engine.deployment.run import Run
from sandbox.engine.deployment.steps import Goal
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import DuplicateUrnError, EngineError, PartialError, ProtectedError, StoppedError
from sandbox.engine.properties import paths
from sandbox.engine.properties.clock import timestamp
from sandbox.engine.properties.values import UNKNOWN, Properties, changed_keys, has_secret, plain
from sandbox.engine.providers.base import Created, Provider, Request
from sandbox.engine.providers.registry import Registry
from sandbox.engine.state.graph import find_old, former_urns
from sandbox.engine.state.resource import Resource


@dataclass(frozen=True)
class Registered:
    """What the program gets back."""

    urn: str
    id: str
    outputs: Properties


class Ledger:
    """Which old resources are still unclaimed, and what has been replaced. Thread-safe.

    Attributes:
        replaced_providers: URNs of providers that now talk to another system.
    """

    def __init__(self, olds: Iterable[Resource]) -> None:
        self._olds = {old.urn: old for old in olds if not old.delete}
        self._claimed: set[str] = set()
        self._deleted: set[str] = set()
        self._formers: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self.replaced_providers: set[str] = set()

    def claim(self, goal: Goal) -> Resource | None:
        """Take the old state of a resource, under its URN or an alias.

        Raises:
            DuplicateUrnError: The URN was claimed before.
        """
        with self._lock:
            if goal.urn in self._claimed:
                raise DuplicateUrnError(goal.urn)
            self._claimed.add(goal.urn)
            formers = former_urns(goal.aliases, goal.urn, goal.parent, self._formers)
            self._formers[goal.urn] = formers
            old = find_old(goal.urn, formers, self._olds)
            if old is not None:
                del self._olds[old.urn]
            return old

    def is_unclaimed(self, urn: str) -> bool:
        """Tell whether the program has not come to this old resource yet."""
        with self._lock:
            return urn in self._olds

    def delete_for_replacement(self, urn: str) -> None:
        """Note that a resource goes now and will be made anew."""
        with self._lock:
            self._olds.pop(urn, None)
            self._deleted.add(urn)

    def was_deleted(self, urn: str) -> bool:
        """Tell whether a resource went before its replacement comes."""
        with self._lock:
            return urn in self._deleted


class Changer:
    """Carries out decisions.

    Args:
        run: The run.
        registry: Gives providers.
        ledger: The old resources.
    """

    def __init__(self, run: Run, registry: Registry, ledger: Ledger) -> None:
        self._run = run
        self._snapshot = run.snapshot
        self._registry = registry
        self._ledger = ledger

    def settled(
        self, goal: Goal, provider: Provider, inputs: Properties, made: Created, created: str
    ) -> Resource:
        """The state after an operation."""
        outputs = provider.marked(goal.inputs, made.outputs, goal.additional_secret_outputs)
        state = steps.new_state(goal, inputs, outputs, made.id)
        state.modified = timestamp()
        state.created = created or state.modified
        return state

    def create(
        self,
        goal: Goal,
        provider: Provider,
        inputs: Properties,
        op: Op,
        *,
        old: Resource | None = None,
        keys: tuple[str, ...] = (),
    ) -> Registered:
        """Create a resource; ``old`` is its predecessor, which goes later."""
        draft = steps.new_state(goal, inputs, {}, "")
        with self._run.operation(op, draft, keys):
            if self._run.preview:
                made = Created("", dict(inputs))
            else:
                request = Request(goal.urn, goal.type, inputs, goal.custom_timeouts.get("create"))
                try:
                    made = provider.create(request)
                except PartialError as error:
                    self._keep_partial(goal, provider, inputs, error, old, keep_old=old is not None)
                    raise
            state = self.settled(goal, provider, inputs, made, "")
            self._snapshot.complete(state, old, keep_old=old is not None)
        return Registered(goal.urn, state.id, state.outputs)

    def _keep_partial(
        self,
        goal: Goal,
        provider: Provider,
        inputs: Properties,
        error: PartialError,
        old: Resource | None,
        *,
        keep_old: bool = False,
    ) -> None:
        """Record what exists although it is not as it should be; the next run updates it."""
        state = self.settled(goal, provider, inputs, Created(error.id, error.outputs), "")
        state.init_errors = [str(error)]
        self._snapshot.complete(state, old, keep_old=keep_old)

    def import_(self, goal: Goal, provider: Provider, inputs: Properties) -> Registered:
        """Take over an existing resource; of what ``ignore_changes`` names, as it is."""
        draft = steps.new_state(goal, inputs, inputs, goal.import_id)
        with self._run.operation(Op.IMPORT, draft):
            found = provider.read(draft)
            made = Created(found.id, found.outputs)
            inputs = steps.merge_ignored(goal, found.inputs, inputs)
            state = self.settled(goal, provider, inputs, made, "")
            differing = changed_keys(found.inputs, inputs)
            if differing:
                raise EngineError(
                    f"importing '{goal.import_id}': the program's inputs differ from what exists: "
                    + ", ".join(differing)
                )
            self._snapshot.complete(state, None)
        return Registered(goal.urn, state.id, state.outputs)

    def same(self, goal: Goal, old: Resource, inputs: Properties, provider: Provider) -> Registered:
        """Carry an unchanged resource over."""
        made = Created(old.id, old.outputs)
        state = self.settled(goal, provider, inputs, made, old.created)
        state.modified = old.modified or state.modified
        state.init_errors = []
        if plain(inputs) == plain(old.inputs) and has_secret(old.inputs) == has_secret(inputs):
            state.inputs = old.inputs
        self._snapshot.complete(state, old, save=False)
        self._run.unchanged(goal.urn)
        return Registered(goal.urn, state.id, state.outputs)

    def update(
        self, goal: Goal, old: Resource, provider: Provider, inputs: Properties, decision: steps.Decision
    ) -> Registered:
        """Change a resource in place."""
        draft = steps.new_state(goal, inputs, old.outputs, old.id)
        with self._run.operation(Op.UPDATE, draft, decision.keys):
            if self._run.preview:
                outputs = provider.preview_update(old, inputs)
            else:
                try:
                    outputs = provider.update(old, inputs, goal.custom_timeouts.get("update"))
                except PartialError as error:
                    self._keep_partial(goal, provider, inputs, error, old)
                    raise
            state = self.settled(goal, provider, inputs, Created(old.id, outputs), old.created)
            self._snapshot.complete(state, old)
        return Registered(goal.urn, state.id, state.outputs)

    def replace(
        self, goal: Goal, old: Resource, provider: Provider, inputs: Properties, decision: steps.Decision
    ) -> Registered:
        """Make a resource anew, before or after the old one goes."""
        if not decision.delete_first:
            return self.create(goal, provider, inputs, Op.REPLACE, old=old, keys=decision.keys)
        doomed = self._doomed_dependents(old)
        for dependent in doomed:
            if dependent.protect:
                raise ProtectedError(dependent.urn, "replaced")
        # Each is deleted on its own, also what goes with ``old``: the genuine engine takes nothing for gone
        # with a resource that is replaced, only with what goes because of it (``isDeletedWith`` in its deploy
        # package; https://github.com/pulumi/pulumi/issues/19924).
        going = {dependent.urn for dependent in doomed}
        for dependent in [*reversed(doomed), old]:
            self._ledger.delete_for_replacement(dependent.urn)
            delete_one(self._run, dependent, self._provider_for, going=going, op=Op.DELETE_REPLACED)
        return self.create(goal, provider, inputs, Op.REPLACE, keys=decision.keys)

    def _provider_for(self, resource: Resource) -> Provider:
        return self._registry.get(resource.provider)

    def _doomed_dependents(self, old: Resource) -> list[Resource]:
        """Old resources that can't live without ``old``, in the order of their dependencies.

        What goes with it is among them, as since https://github.com/pulumi/pulumi/pull/23818; engines before
        that spare what would not be replaced for another reason.
        """
        doomed: list[Resource] = []
        hit = {old.urn}
        remaining = [item for item in self._snapshot.remaining() if item is not old and not item.delete]
        for candidate in remaining:
            keys = {key for key, urns in candidate.property_dependencies.items() if hit & set(urns)}
            if not candidate.is_managed or not self._ledger.is_unclaimed(candidate.urn):
                continue
            unknown = {key: UNKNOWN if key in keys else value for key, value in candidate.inputs.items()}
            if candidate.deleted_with in hit or (keys and self._dies(candidate, unknown)):
                hit.add(candidate.urn)
                doomed.append(candidate)
        return doomed

    def _dies(self, candidate: Resource, inputs: Properties) -> bool:
        if any(
            paths.differ(candidate.inputs, inputs, paths.parse(path)) for path in candidate.replace_on_changes
        ):
            return True
        try:
            return bool(self._provider_for(candidate).diff(candidate, inputs).replaces)
        except StoppedError:
            raise
        except EngineError:
            return False  # it can't be compared with unknown values, so nothing forces it out
