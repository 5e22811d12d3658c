"""Which type a load balancer should have, and whose limits hold until it has it."""

from __future__ import annotations

import msgspec
import pytest
from desired_cases import LARGE, OLD, SELECTOR, SMALL, balancer, facts, said, server, wishes

from ccm.hetzner.api.wire import LoadBalancerType
from ccm.hetzner.load_balancers.annotations import PREFIX
from ccm.hetzner.load_balancers.desired.type import TypeChoice, choose_type

DEPRECATED = [("LoadBalancerTypeDeprecated", "type old of shop/web is deprecated")]


def test_the_usual_one_and_the_wanted_one() -> None:
    assert choose_type(wishes(), facts()) == TypeChoice(SMALL, SMALL)
    assert choose_type(wishes({"type": "LB21"}), facts()) == TypeChoice(LARGE, LARGE)
    assert choose_type(wishes({"type": "lb21"}), facts(balancer())) == TypeChoice(LARGE, LARGE)
    assert choose_type(wishes({"type": "lb21"}), facts(balancer(), leads=False)) == TypeChoice(LARGE, None)


def test_a_deprecated_one_is_named_since_the_api_says_when_it_ends() -> None:
    wire = {"name": "lb11", "deprecation": {"announced": "2026-01-01", "unavailable_after": "2027-01-01"}}
    kind = msgspec.convert(wire, LoadBalancerType)
    found = choose_type(wishes(), facts(balancer(load_balancer_type=kind), types={}))
    text = "type lb11 of shop/web is deprecated, and unavailable after 2027-01-01"
    assert said(found.notices) == [("LoadBalancerTypeDeprecated", text)]


def test_a_deprecated_one_is_named() -> None:
    found = choose_type(wishes({"type": "old"}), facts())
    assert (found.type, found.limits) == (OLD, OLD)
    assert said(found.notices) == DEPRECATED


def test_where_types_are_not_known_it_stays() -> None:
    there = balancer(load_balancer_type=LARGE)
    assert choose_type(wishes({"type": "lb11"}), facts(there, types={})) == TypeChoice(LARGE, None)
    stays = choose_type(wishes(), facts(balancer(load_balancer_type=OLD), types={}))
    assert (stays.type, stays.limits, said(stays.notices)) == (None, OLD, DEPRECATED)


@pytest.mark.parametrize(
    ("annotations", "variables", "name"),
    [({"type": "lb99"}, {}, f"{PREFIX}type"), ({}, {"TYPE": "lb99"}, "HCLOUD_LOAD_BALANCERS_TYPE")],
)
def test_one_that_there_is_not(annotations: dict[str, str], variables: dict[str, str], name: str) -> None:
    problems = {f"{PREFIX}type": f"{name}: 'lb99' is not one of lb11, lb21, old"}
    asked = wishes(annotations, **variables)
    assert choose_type(asked, facts()) == TypeChoice(LoadBalancerType(), problems=problems)
    there = balancer(load_balancer_type=LARGE)
    assert choose_type(asked, facts(there)) == TypeChoice(LARGE, problems=problems)


def test_the_usual_one_comes_back_only_where_it_is_large_enough() -> None:
    there = balancer({}, 80, 81, 82, load_balancer_type=LARGE)
    found = choose_type(wishes(), facts(there))
    assert (found.limits, found.type, found.kept) == (LARGE, None, {"type"})
    assert said(found.notices) == [
        (
            "LoadBalancerTypeKept",
            "no type is configured any more, but lb11 is too small for its ports or nodes: lb21 stays",
        )
    ]
    assert choose_type(wishes({"type": "lb11"}), facts(there)) == TypeChoice(SMALL, SMALL)
    fitting = balancer({}, 80, 81, load_balancer_type=LARGE)
    assert choose_type(wishes(), facts(fitting)) == TypeChoice(SMALL, SMALL)


def test_what_a_type_takes() -> None:
    two, three = balancer({}, 80, 81), balancer({}, 80, 81, 82)
    assert [one.fits(SMALL) for one in (two, three)] == [True, False]
    full = balancer({}, targets=(server(1), server(2), SELECTOR))
    over = balancer({}, targets=(server(1), server(2), server(3), SELECTOR))
    assert [one.fits(SMALL) for one in (full, over)] == [True, False]
