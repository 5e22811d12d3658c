"""Registering resources: what the program says becomes what is."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace

from sandbox.engine.deployment import steps
from sandbox.engine.deployment.changes import Changer, Ledger, Registered
from sandbox.engine.deployment.run import Run
from sandbox.engine.deployment.steps import Goal
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import EngineError, UnsupportedError
from sandbox.engine.properties.clock import timestamp
from sandbox.engine.properties.values import (
    UNKNOWN,
    Properties,
    changed_keys,
    has_asset,
    mark_keys,
    without_internal,
)
from sandbox.engine.providers.base import Provider
from sandbox.engine.providers.registry import Registry, config_diff
from sandbox.engine.state import graph
from sandbox.engine.state.resource import DYNAMIC_PROVIDER, STACK_TYPE, Resource, provider_urn


class Registrar:
    """Turns goals into resources, one call a resource, many calls at once.

    Args:
        run: The run.
        registry: Gives providers.
    """

    def __init__(self, run: Run, registry: Registry) -> None:
        self._run = run
        self._snapshot = run.snapshot
        self._registry = registry
        self._ledger = Ledger(run.snapshot.remaining())
        self._changer = Changer(run, registry, self._ledger)
        self.old_stack_outputs: Properties = {}

    def register(self, goal: Goal) -> Registered:
        """Make one resource what the program wants.

        Raises:
            EngineError: It did not work.
        """
        self._run.check()
        if goal.inputs and has_asset(goal.inputs):
            raise UnsupportedError(f"assets and archives (in '{goal.name}')")
        old = self._ledger.claim(goal)
        if not goal.custom:
            return self._component(goal, old)
        if goal.type.startswith("pulumi:providers:"):
            return self._provider(goal, old)
        return self._custom(goal, old)

    def unregistered(self) -> list[Resource]:
        """Old resources that the program no longer has, and replaced ones that still exist."""
        return self._snapshot.remaining()

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
        # the genuine engine notes it for every plugin that checks its own configuration
        inputs = visible if goal.type == DYNAMIC_PROVIDER else {"__internal": {}, **visible}
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
        if op is Op.UPDATE:
            self._registry.forget(state.reference)
        if op is Op.REPLACE:
            self._ledger.replaced_providers.add(goal.urn)
        self._snapshot.complete(state, old, keep_old=op is Op.REPLACE, save=op is not Op.SAME)
        self._run.unchanged(goal.urn, op)
        return Registered(goal.urn, "" if state.id == UNKNOWN else state.id, outputs)

    def _provider_was_replaced(self, goal: Goal, old: Resource) -> bool:
        if old.provider == goal.provider or not old.provider:
            return False
        before, after = provider_urn(old.provider), provider_urn(goal.provider)
        if before == after:
            return before in self._ledger.replaced_providers
        earlier, later = (
            self._registry.configuration(old.provider),
            self._registry.configuration(goal.provider),
        )
        package = graph.type_of(after).rsplit(":", 1)[-1]
        return bool(earlier and later and config_diff(package, earlier, later).replaces)

    # --- custom resources

    def _custom(self, goal: Goal, old: Resource | None) -> Registered:
        provider = self._registry.get(goal.provider)
        wanted = steps.merge_ignored(goal, old.inputs if old else None, goal.inputs)
        seed = os.urandom(32)
        olds = old.inputs if old else {}
        checked = _checked(provider, goal, olds, wanted, seed)
        goal = replace(goal, inputs=wanted)
        decision = self._decide(goal, old, provider, checked)
        if decision.op is Op.IMPORT:
            return self._changer.import_(goal, provider, checked)
        if decision.op is Op.SAME and old is not None:
            return self._changer.same(goal, old, checked, provider)
        if decision.op is Op.UPDATE and old is not None:
            return self._changer.update(goal, old, provider, checked, decision)
        if decision.op is Op.REPLACE and old is not None:
            # without the old inputs, automatic names are new ones: old and new exist side by side
            checked = _checked(provider, goal, {}, wanted, seed)
            return self._changer.replace(goal, old, provider, checked, decision)
        replaced = self._ledger.was_deleted(goal.urn)
        return self._changer.create(goal, provider, checked, Op.REPLACE if replaced else Op.CREATE)

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
            changes=difference.changes,
            provider_replaced=self._provider_was_replaced(goal, old),
            asked=goal.urn in self._run.replace,
        )
        return steps.decide(goal, old, difference, forced)


def _checked(provider: Provider, goal: Goal, olds: Properties, wanted: Properties, seed: bytes) -> Properties:
    found = provider.check(goal.urn, goal.type, provider.sent(olds), provider.sent(wanted), seed)
    return provider.marked(wanted, found)
