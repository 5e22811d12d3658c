import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType

from balancer_site import BalancerSite, view

from ccm.hetzner import load_balancers

STAGES = ("spec", "observed", "desired", "plan", "apply")
MAX_RETURNS = 4
ROUND = ("desired", "plan", "apply")
PACKAGE = Path(load_balancers.__file__).parent


@contextmanager
def walked() -> Iterator[list[str]]:
    """The stages that are entered meanwhile, in order.

    A stage is entered when a function of its folder is called while another stage works. What is asked of a
    result that a stage has handed on (``spec.has_placement``, a step's text) enters nothing.
    """
    way: list[str] = []

    def enter(frame: FrameType, event: str, _: object) -> None:
        stage = Path(frame.f_code.co_filename).parent
        is_function = event == "call" and not frame.f_code.co_name.startswith("<")  # no comprehension
        is_of_result = is_dataclass(frame.f_locals.get("self"))
        is_ours = stage.parent == PACKAGE and stage.name in STAGES
        if is_ours and is_function and not is_of_result and way[-1:] != [stage.name]:
            way.append(stage.name)

    sys.setprofile(enter)
    try:
        yield way
    finally:
        sys.setprofile(None)


def returns(way: Sequence[str]) -> int:
    """How often a stage is entered that was left before."""
    return len(way) - len({*way})


class TestTheWayOfAService:
    async def test_it_is_planned_once_more_when_its_load_balancer_is_made(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        with walked() as way:
            await site.ensure(view())
        assert way == ["spec", "observed", *ROUND, *ROUND]
        assert returns(way) == 3 <= MAX_RETURNS

    async def test_it_returns_nowhere_when_it_is_looked_at_or_changed(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        await site.ensure(view())
        for changed in (view(), view("web", 80, 443, annotations={"algorithm-type": "least_connections"})):
            with walked() as way:
                await site.ensure(changed)
            assert way == ["spec", "observed", *ROUND]
            assert returns(way) == 0

    async def test_a_plan_ends_before_the_last_stage(self, site: BalancerSite) -> None:
        with walked() as way:
            await site.balancers.plan(view(), await site.add_nodes("a"))
        assert way == ["spec", "observed", "desired", "plan"]

    async def test_what_becomes_of_what_it_leaves_is_decided_when_it_leaves(self, site: BalancerSite) -> None:
        await site.ensure(view())
        with walked() as way:
            await site.balancers.delete(view())
        assert way == ["observed", "plan", "apply", "plan", "apply"]
        assert returns(way) == 2 <= MAX_RETURNS
