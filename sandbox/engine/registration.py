"""Registering resources: what the program says becomes what is."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sandbox.engine import graph, steps
from sandbox.engine.clock import timestamp
from sandbox.engine.deletion import delete_one
from sandbox.engine.errors import (
    DuplicateUrnError,
    EngineError,
    PartialError,
    ProtectedError,
    StoppedError,
    UnsupportedError,
)
from sandbox.engine.providers.base import Created, Provider, Request
from sandbox.engine.providers.registry import Registry, config_diff
from sandbox.engine.resource import STACK_TYPE, Resource, provider_urn
from sandbox.engine.run import Run
from sandbox.engine.steps import Goal, Op
from sandbox.engine.values import (
    UNKNOWN,
    Properties,
    changed_keys,
    has_asset,
    has_secret,
    has_unknown,
    mark_keys,
    mark_like,
    plain,
    without_internal,
)

Hooks = Callable[[str, Resource], None]


@dataclass(frozen=True)
class Registered:
    """What the program gets back."""

    urn: str
    id: str
    outputs: Properties
    stables: list[str] = field(default_factory=list)


class Registrar:
    """Turns goals into resources, one call a resource, many calls at once.

    Args:
        run: The run.
        registry: Gives providers.
        hooks: Runs the program's resource hooks.
    """

    def __init__(self, run: Run, registry: Registry, hooks: Hooks) -> None:
        self._run = run
        self._snapshot = run.snapshot
        self._registry = registry
        self._hooks = hooks
        self._olds = {old.urn: old for old in run.snapshot.remaining() if not old.delete}
        self._claimed: set[str] = set()
        self._replaced: set[str] = set()
        self._replaced_providers: set[str] = set()
        self._deleted_for_replacement: set[str] = set()
        self._lock = threading.Lock()
        self.old_stack_outputs: Properties = {}

    def register(self, goal: Goal) -> Registered:
        """Make one resource what the program wants.

        Raises:
            EngineError: It did not work.
        """
        self._run.check()
        if goal.inputs and has_asset(goal.inputs):
            raise UnsupportedError(f"assets and archives (in '{goal.name}')")
        old = self._claim(goal)
        if not goal.custom:
            return self._component(goal, old)
        if goal.type.startswith("pulumi:providers:"):
            return self._provider(goal, old)
        return self._custom(goal, old)

    def unregistered(self) -> list[Resource]:
        """Old resources that the program no longer has, and replaced ones that still exist."""
        return self._snapshot.remaining()

    # --- identity

    def _claim(self, goal: Goal) -> Resource | None:
        with self._lock:
            if goal.urn in self._claimed:
                raise DuplicateUrnError(goal.urn)
            self._claimed.add(goal.urn)
            aliases = [graph.alias_urn(alias, goal.urn, goal.parent) for alias in goal.aliases]
            old = graph.find_old(goal.urn, aliases, self._olds)
            if old is not None:
                del self._olds[old.urn]
            return old

    # --- components

    def _component(self, goal: Goal, old: Resource | None) -> Registered:
        state = steps.new_state(goal, goal.inputs, dict(old.outputs) if old else {}, "")
        state.provider = ""
        state.created = old.created if old and old.created else timestamp()
        state.modified = old.modified if old and old.modified else state.created
        if goal.type == STACK_TYPE:
            self.old_stack_outputs = dict(state.outputs)
        self._snapshot.complete(state, old, save=old is None)
        self._run.unchanged(goal.urn, Op.SAME if old else Op.CREATE)
        return Registered(goal.urn, "", goal.inputs)

    def register_outputs(self, urn: str, outputs: Properties) -> None:
        """Set the outputs of a component."""
        state = self._snapshot.news.get(urn)
        if state is None:
            raise EngineError(f"outputs of the unknown resource '{urn}'")
        changed = state.outputs != outputs
        state.outputs = outputs
        if changed and state.type != STACK_TYPE:
            self._snapshot.complete(state, None)
        elif changed:
            self._snapshot.complete(state, None, save=False)

    # --- providers

    def _provider(self, goal: Goal, old: Resource | None) -> Registered:
        visible = without_internal(goal.inputs)
        inputs = (
            {"__internal": {}, **visible} if not goal.name.startswith("default") or goal.parent else visible
        )
        outputs = mark_keys(list(goal.additional_secret_outputs), visible)
        state = steps.new_state(goal, inputs, outputs, "")
        self._registry.check_config(goal.type, visible)
        difference = config_diff(state.package, old.inputs, visible) if old else None
        if old is None:
            op = Op.CREATE
        elif difference and difference.replaces:
            op = Op.REPLACE
        else:
            op = Op.UPDATE if changed_keys(old.inputs, visible) else Op.SAME
        fresh = UNKNOWN if self._run.preview else str(uuid.uuid4())
        state.id = old.id if old and op is not Op.REPLACE else fresh
        state.created = old.created if old and op is not Op.REPLACE else timestamp()
        state.modified = old.modified if old and op is Op.SAME else timestamp()
        if op is Op.REPLACE:
            self._replaced_providers.add(goal.urn)
        self._snapshot.complete(state, old, keep_old=op is Op.REPLACE, save=op is not Op.SAME)
        self._run.unchanged(goal.urn, op)
        return Registered(goal.urn, "" if state.id == UNKNOWN else state.id, outputs)

    def _provider_was_replaced(self, goal: Goal, old: Resource) -> bool:
        if old.provider == goal.provider or not old.provider:
            return False
        before, after = provider_urn(old.provider), provider_urn(goal.provider)
        if before == after:
            return before in self._replaced_providers
        earlier, later = (
            self._registry.configuration(old.provider),
            self._registry.configuration(goal.provider),
        )
        package = graph.type_of(after).rsplit(":", 1)[-1]
        return bool(earlier and later and config_diff(package, earlier, later).replaces)

    # --- custom resources

    def _custom(self, goal: Goal, old: Resource | None) -> Registered:
        provider = self._registry.get(goal.provider)
        wanted = steps.merge_ignored(goal, old)
        seed = os.urandom(32)
        olds = old.inputs if old else {}
        checked = provider.check(
            goal.urn, goal.type, self._sent(provider, olds), self._sent(provider, wanted), seed
        )
        checked = self._marked(provider, wanted, checked)
        goal = replace(goal, inputs=wanted)
        decision = self._decide(goal, old, provider, checked)
        if decision.op is Op.IMPORT:
            return self._import(goal, provider, checked)
        if decision.op is Op.SAME and old is not None:
            return self._same(goal, old, checked, provider)
        if decision.op is Op.UPDATE and old is not None:
            return self._update(goal, old, provider, checked, decision)
        if decision.op is Op.REPLACE and old is not None:
            # without the old inputs, automatic names are new ones: old and new exist side by side
            checked = provider.check(goal.urn, goal.type, {}, self._sent(provider, wanted), seed)
            checked = self._marked(provider, wanted, checked)
            return self._replace(goal, old, provider, checked, decision)
        replaced = goal.urn in self._deleted_for_replacement
        return self._create(goal, provider, checked, Op.REPLACE if replaced else Op.CREATE)

    @staticmethod
    def _sent(provider: Provider, values: Properties) -> Properties:
        return values if provider.accept_secrets else plain(values)

    @staticmethod
    def _marked(provider: Provider, wanted: Properties, checked: Properties) -> Properties:
        return checked if provider.accept_secrets else mark_like(wanted, checked)

    def _decide(
        self, goal: Goal, old: Resource | None, provider: Provider, checked: Properties
    ) -> steps.Decision:
        if old is None or old.external:
            return steps.decide(goal, old, None)
        difference = provider.diff(old, checked)
        forced = steps.forced_replacements(
            goal,
            old,
            checked,
            provider_replaced=self._provider_was_replaced(goal, old),
            replaced=self._replaced,
        )
        return steps.decide(goal, old, difference, forced)

    def _settled(
        self, goal: Goal, provider: Provider, inputs: Properties, made: Created, created: str
    ) -> Resource:
        outputs = made.outputs if provider.accept_secrets else mark_like(goal.inputs, made.outputs)
        outputs = mark_keys(list(goal.additional_secret_outputs), outputs)
        state = steps.new_state(goal, inputs, outputs, made.id)
        state.modified = timestamp()
        state.created = created or state.modified
        return state

    def _create(
        self,
        goal: Goal,
        provider: Provider,
        inputs: Properties,
        op: Op,
        *,
        old: Resource | None = None,
        keys: tuple[str, ...] = (),
    ) -> Registered:
        draft = steps.new_state(goal, inputs, {}, "")
        with self._run.operation(op, draft, keys):
            if self._run.preview:
                made = Created("", dict(inputs))
            else:
                self._hooks("BeforeCreate", draft)
                request = Request(goal.urn, goal.type, inputs, goal.custom_timeouts.get("create"))
                try:
                    made = provider.create(request)
                except PartialError as error:
                    self._keep_partial(goal, provider, inputs, error, old, keep_old=old is not None)
                    raise
            state = self._settled(goal, provider, inputs, made, "")
            self._snapshot.complete(state, old, keep_old=old is not None)
            if not self._run.preview:
                self._hooks("AfterCreate", state)
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
        state = self._settled(goal, provider, inputs, Created(error.id, error.outputs), "")
        state.init_errors = [str(error)]
        self._snapshot.complete(state, old, keep_old=keep_old)

    def _import(self, goal: Goal, provider: Provider, inputs: Properties) -> Registered:
        draft = steps.new_state(goal, inputs, inputs, goal.import_id)
        with self._run.operation(Op.IMPORT, draft):
            found = provider.read(draft)
            made = Created(found.id, found.outputs)
            state = self._settled(goal, provider, inputs, made, "")
            differing = changed_keys(found.inputs, inputs)
            if differing:
                raise EngineError(
                    f"importing '{goal.import_id}': the program's inputs differ from what exists: {', '.join(differing)}"
                )
            self._snapshot.complete(state, None)
        return Registered(goal.urn, state.id, state.outputs)

    def _same(self, goal: Goal, old: Resource, inputs: Properties, provider: Provider) -> Registered:
        made = Created(old.id, old.outputs)
        state = self._settled(goal, provider, inputs, made, old.created)
        state.modified = old.modified or state.modified
        state.init_errors = []
        if plain(inputs) == plain(old.inputs) and has_secret(old.inputs) == has_secret(inputs):
            state.inputs = old.inputs
        self._snapshot.complete(state, old, save=False)
        self._run.unchanged(goal.urn)
        return Registered(goal.urn, state.id, state.outputs)

    def _update(
        self, goal: Goal, old: Resource, provider: Provider, inputs: Properties, decision: steps.Decision
    ) -> Registered:
        draft = steps.new_state(goal, inputs, old.outputs, old.id)
        with self._run.operation(Op.UPDATE, draft, decision.keys):
            if self._run.preview:
                outputs = provider.preview_update(old, inputs)
            else:
                self._hooks("BeforeUpdate", draft)
                try:
                    outputs = provider.update(old, inputs, goal.custom_timeouts.get("update"))
                except PartialError as error:
                    self._keep_partial(goal, provider, inputs, error, old)
                    raise
            state = self._settled(goal, provider, inputs, Created(old.id, outputs), old.created)
            self._snapshot.complete(state, old)
            if not self._run.preview:
                self._hooks("AfterUpdate", state)
        return Registered(goal.urn, state.id, state.outputs)

    # --- replacing

    def _replace(
        self, goal: Goal, old: Resource, provider: Provider, inputs: Properties, decision: steps.Decision
    ) -> Registered:
        self._replaced.add(goal.urn)
        if not decision.delete_first:
            return self._create(goal, provider, inputs, Op.REPLACE, old=old, keys=decision.keys)
        doomed = self._doomed_dependents(old)
        for dependent in doomed:
            if dependent.protect:
                raise ProtectedError(dependent.urn, "replaced")
        going = {old.urn, *(dependent.urn for dependent in doomed)}
        for dependent in [*reversed(doomed), old]:
            with self._lock:
                self._olds.pop(dependent.urn, None)
                self._deleted_for_replacement.add(dependent.urn)
            delete_one(self._run, dependent, self._provider_for, going, Op.DELETE_REPLACED, self._hooks)
        return self._create(goal, provider, inputs, Op.REPLACE, keys=decision.keys)

    def _provider_for(self, resource: Resource) -> Provider:
        return self._registry.get(resource.provider)

    def _doomed_dependents(self, old: Resource) -> list[Resource]:
        """Old resources that can't live without `old`, in the order of their dependencies."""
        doomed: list[Resource] = []
        hit = {old.urn}
        remaining = [item for item in self._snapshot.remaining() if item is not old and not item.delete]
        for candidate in remaining:
            keys = {key for key, urns in candidate.property_dependencies.items() if hit & set(urns)}
            if not candidate.is_managed or candidate.urn not in self._olds:
                continue
            unknown = {key: UNKNOWN if key in keys else value for key, value in candidate.inputs.items()}
            if candidate.deleted_with in hit or (keys and self._dies(candidate, unknown)):
                hit.add(candidate.urn)
                doomed.append(candidate)
        return doomed

    def _dies(self, candidate: Resource, inputs: Properties) -> bool:
        try:
            return bool(self._provider_for(candidate).diff(candidate, inputs).replaces)
        except StoppedError:
            raise
        except EngineError:
            return False  # it can't be compared with unknown values, so nothing forces it out

    # --- reading

    def read(self, goal: Goal, identity: str) -> Registered:
        """Read a resource that the program does not manage (`Resource.get`).

        Raises:
            EngineError: It does not exist.
        """
        self._run.check()
        old = self._claim(goal)
        provider = self._registry.get(goal.provider)
        draft = steps.new_state(goal, goal.inputs, goal.inputs, identity)
        if has_unknown(identity) or has_unknown(goal.inputs):
            return Registered(goal.urn, UNKNOWN, {})
        with self._run.operation(Op.READ, draft):
            found = provider.read(draft)
            state = self._settled(
                goal, provider, goal.inputs, Created(found.id, found.outputs), old.created if old else ""
            )
            state.external = True
            self._snapshot.complete(state, old)
        return Registered(goal.urn, state.id, state.outputs)
