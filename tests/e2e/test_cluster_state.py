import argparse
from collections import Counter

import pytest

from tests.e2e import bench_cluster as cluster
from tests.e2e.cluster_state import changed
from tests.e2e.probing_clients import Call, answers_again, longest_failure


def made(*answered: bool) -> list[Call]:
    """Calls that take a second each, one after the other."""
    return [Call(number, number + 1, good) for number, good in enumerate(answered)]


def test_a_failure_lasts_from_its_first_call_to_the_next_answer() -> None:
    assert longest_failure(made(True, False, False, True, False, True)) == 3
    assert longest_failure(made(True, True)) == 0
    assert longest_failure([]) == 0
    assert longest_failure(made(True, False, False)) == 2


def test_it_answers_again_when_no_call_fails_any_more() -> None:
    # one that was answered in between does not end it
    assert answers_again(made(True, False, True, False, True, True), since=1) == 4
    assert answers_again(made(True, True), since=0) == 0
    assert answers_again(made(True, False), since=0) is None
    assert answers_again(made(False, True, True), since=1.5) == 0


def test_duplicate_and_lost_objects_are_reported_by_name() -> None:
    before = Counter({("servers", "a", "1"): 1, ("networks", "n", "2"): 1})
    after = Counter({("servers", "a", "1"): 2, ("networks", "n", "3"): 1})
    assert sorted(cluster.differing(before, after)) == [
        "networks n lost",
        "networks n too many",
        "servers a too many",
    ]
    assert cluster.differing(before, before) == []


def test_parts_are_measured_in_their_order_whatever_was_typed() -> None:
    assert cluster.chosen(["destroy", "up"]) == ["up", "destroy"]
    assert cluster.chosen([]) == [*cluster.PARTS]
    with pytest.raises(argparse.ArgumentTypeError, match="there is no part 'x'; there are: up, again"):
        cluster.part("x")


def test_only_changes_that_were_made_are_changes() -> None:
    printed = (
        "Updating (local)\n"
        " +  hcloud:index:Server worker-1 creating (0s)\n"
        " +  hcloud:index:Server worker-1 created (5s)\n"
        " -- hcloud:index:Server worker-2 deleted original (0.36s)\n"
        "    hcloud:index:Network network **creating failed**\n"
        "    42 unchanged\n"
    )
    assert [line.split()[2] for line in changed(printed)] == ["worker-1", "worker-2"]
