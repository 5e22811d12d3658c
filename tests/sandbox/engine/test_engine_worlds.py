"""Any programs one after the other, failures and kills anywhere: nothing is doubled, lost or dangling."""

from __future__ import annotations

import copy
import io
import itertools
import json
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from engine_lab import check_integrity
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.engine.deployment import deletion, refreshing, resume
from sandbox.engine.deployment.registration import Registrar
from sandbox.engine.deployment.run import Run
from sandbox.engine.deployment.steps import Goal
from sandbox.engine.display.terminal import Display
from sandbox.engine.errors import EngineError, ProviderError, ResourceNotFoundError, StoppedError
from sandbox.engine.properties.values import Properties, changed_keys
from sandbox.engine.providers.base import Created, Diff, Provider, Read, Request
from sandbox.engine.state.graph import Alias, urn_of
from sandbox.engine.state.resource import Resource
from sandbox.engine.state.secrets import Crypter
from sandbox.engine.state.snapshot import Snapshot

pytestmark = pytest.mark.slow
CRYPTER = Crypter("x", None)
KIND = "t:i:T"
RETAINED = 4
Things = dict[str, tuple[str, Properties]]


class World(Provider):
    """Things by id; what is deleted takes along what is in it. It is its own provider."""

    def __init__(self) -> None:
        self.things: Things = {}
        self.calls = 0
        self.failing: dict[str, set[int]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def get(self, _reference: str) -> Provider:
        """As the registry of providers."""
        return self

    def _enter(self, operation: str, inputs: Properties) -> None:
        self.calls += 1
        if inputs["slot"] in self.failing.get(operation, ()):
            raise ProviderError(f"{operation} fails")

    def diff(self, old: Resource, news: Properties) -> Diff:
        keys = changed_keys(old.inputs, news)
        hard = {"host", "home"} | ({"link"} if news["hard"] else set())
        replaces = [key for key in keys if key in hard]
        return Diff(bool(keys), replaces, delete_before_replace=bool(replaces) and news["first"], keys=keys)

    def create(self, request: Request) -> Created:
        with self._lock:
            self._enter("create", request.inputs)
            identity = str(next(self._ids))
            self.things[identity] = (request.urn, dict(request.inputs))
        return Created(identity, dict(request.inputs))

    def adopt(self, request: Request) -> Created | None:
        for identity, (urn, inputs) in reversed(self.things.items()):
            if urn == request.urn and inputs == request.inputs:
                return Created(identity, dict(inputs))
        return None

    def update(self, old: Resource, news: Properties, timeout: float | None) -> Properties:
        with self._lock:
            self._enter("update", news)
            self.things[old.id] = (old.urn, dict(news))
        return dict(news)

    def delete(self, old: Resource, timeout: float | None) -> None:
        with self._lock:
            self._enter("delete", old.inputs)
            gone = {old.id}
            while more := {i for i, (_, thing) in self.things.items() if thing["home"] in gone} - gone:
                gone |= more
            self.things = {i: thing for i, thing in self.things.items() if i not in gone}

    def read(self, old: Resource) -> Read:
        if old.id not in self.things:
            raise ResourceNotFoundError(f"'{old.id}' no longer exists")
        inputs = self.things[old.id][1]
        return Read(old.id, dict(inputs), dict(inputs))


@dataclass(frozen=True)
class Wish:
    """One resource of a program; `links` and `home` are earlier slots."""

    slot: int
    name: str
    size: int
    host: int
    first: bool
    hard: bool
    retain: bool
    links: tuple[int, ...]
    home: int | None


@dataclass
class Stack:
    """A stack, the world that it describes, and every state that was ever written, with the world then."""

    world: World = field(default_factory=World)
    deployment: Properties = field(default_factory=dict)
    writes: list[tuple[Properties, Things]] = field(default_factory=list)

    def up(self, program: list[Wish], failing: dict[str, set[int]]) -> str | None:
        """Run a program; how it failed."""
        self.world.failing, self.writes = failing, []
        snapshot = Snapshot(self.deployment, CRYPTER, "1.2.3", self._write)
        run = Run("dev", "lab", snapshot, Display(io.StringIO()))
        registry: Any = self.world
        try:
            resume.resume(run, registry)
            refreshing.refresh(run, registry, quiet=True)
            registrar = Registrar(run, registry)
            self._register(run, registrar, program)
            leftover = registrar.unregistered()
            deletion.delete_all(run, leftover, lambda _: self.world)
        except StoppedError:
            pass
        except EngineError as error:
            run.fail(str(error))
        snapshot.save()
        return run.failed

    def _register(self, run: Run, registrar: Registrar, program: list[Wish]) -> None:
        made: dict[int, tuple[str, str]] = {}
        for wish in program:
            run.check()
            links = [made[slot] for slot in wish.links if slot in made]
            home = made.get(-1 if wish.home is None else wish.home, ("", ""))
            found = registrar.register(goal_of(wish, links, home))
            made[wish.slot] = (found.urn, found.id)

    def _write(self, data: Any) -> None:
        self.deployment = json.loads(json.dumps(data))
        check_integrity(self.deployment)
        self.writes.append((self.deployment, copy.deepcopy(self.world.things)))

    def kill(self, number: int, *, late: bool) -> None:
        """Go back to one of the last run's writes; `late`: the next operation was still done."""
        if self.writes:
            number %= len(self.writes)
            self.deployment = self.writes[number][0]
            self.world.things = copy.deepcopy(self.writes[min(number + late, len(self.writes) - 1)][1])


def goal_of(wish: Wish, links: list[tuple[str, str]], home: tuple[str, str]) -> Goal:
    other = wish.name.translate(str.maketrans("ab", "ba"))
    return Goal(
        urn_of("dev", "lab", KIND, wish.name),
        KIND,
        wish.name,
        custom=True,
        inputs={
            "slot": wish.slot,
            "size": wish.size,
            "host": wish.host,
            "first": wish.first,
            "hard": wish.hard,
            "retain": wish.retain,
            "link": [identity for _, identity in links],
            "home": home[1],
        },
        dependencies=tuple(sorted({urn for urn, _ in [*links, home] if urn})),
        property_dependencies={
            "link": [urn for urn, _ in links],
            "home": [home[0]] if home[0] else [],
        },
        retain_on_delete=wish.retain,
        deleted_with=home[0],
        aliases=(Alias(name=other),),
    )


@st.composite
def programs(draw: st.DrawFn) -> list[Wish]:
    wishes = []
    for slot in sorted(draw(st.sets(st.integers(0, 4), max_size=4))):
        earlier = [wish.slot for wish in wishes]
        # nobody's home is retained: what is deleted with it would be retained, too
        homes = [wish.slot for wish in wishes if not wish.retain]
        some = st.sets(st.sampled_from(earlier), max_size=2) if earlier else st.just(set())
        wishes.append(
            Wish(
                slot,
                f"{slot}{draw(st.sampled_from('ab'))}",
                draw(st.integers(0, 1)),
                draw(st.integers(0, 1)),
                first=draw(st.booleans()),
                hard=draw(st.booleans()),
                retain=slot == RETAINED,
                links=tuple(sorted(draw(some))),
                home=draw(st.none() | st.sampled_from(homes)) if homes else None,
            )
        )
    return wishes


slots = st.sets(st.integers(0, 4), max_size=1)
failures = st.fixed_dictionaries({"create": slots, "update": slots, "delete": slots})
kills = st.none() | st.tuples(st.integers(0, 20), st.booleans())


@given(st.lists(st.tuples(programs(), failures, kills), max_size=4), programs())
@settings(max_examples=150, deadline=None)
def test_whatever_happened_before_the_last_program_is_what_is_there(
    history: list[tuple[list[Wish], dict[str, set[int]], tuple[int, bool] | None]], last: list[Wish]
) -> None:
    stack = Stack()
    for program, failing, killed in history:
        stack.up(program, failing)
        if killed is not None:
            stack.kill(killed[0], late=killed[1])
    assert stack.up(last, {}) is None
    resources = {item["id"]: item for item in stack.deployment.get("resources") or []}
    assert {item["urn"].split("::")[3] for item in resources.values()} == {wish.name for wish in last}
    assert "pending_operations" not in stack.deployment
    # like the genuine engine, this one believes too early that what goes with another is gone
    lost = {i for i, (_, thing) in stack.world.things.items() if thing["retain"] or thing["home"]}
    kept = {i: thing for i, (_, thing) in stack.world.things.items() if i in resources or i not in lost}
    assert kept == {identity: item["inputs"] for identity, item in resources.items()}
    calls = stack.world.calls
    assert stack.up(last, {}) is None
    assert stack.world.calls == calls, "a second time changes nothing"


def wish(slot: int, **more: Any) -> Wish:
    plain = Wish(slot, f"{slot}a", 0, 0, first=False, hard=False, retain=False, links=(), home=None)
    return replace(plain, **more)


def test_a_replacement_that_a_killed_run_has_made_is_taken_over() -> None:
    stack, changed = Stack(), [wish(0, host=1)]
    stack.up([wish(0)], {})
    stack.up(changed, {})
    creating = [number for number, (data, _) in enumerate(stack.writes) if "pending_operations" in data]
    stack.kill(creating[0], late=True)
    assert len(stack.world.things) == 2
    assert stack.up(changed, {}) is None
    assert [inputs["host"] for _, inputs in stack.world.things.values()] == [1]


def test_what_vanished_leaves_no_reference_at_any_moment() -> None:
    stack = Stack()
    stack.up([wish(0), wish(1, links=(0,), home=0), wish(2, links=(0, 1))], {})
    stack.world.things.clear()
    assert stack.up([], {}) is None


def test_what_goes_with_another_is_there_as_long_as_that_is() -> None:
    stack, before = Stack(), [wish(0, first=True), wish(1, home=0)]
    stack.up(before, {})
    failed = stack.up([wish(0, first=True, host=1), wish(1, home=0)], {"delete": {0}})
    assert failed == "delete fails"
    assert stack.up(before, {}) is None
    assert len(stack.world.things) == 2
