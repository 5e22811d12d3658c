"""The plan needs no cloud, so neither do its tests."""

from load_balancers import Desired, Observed, Step, plan

DESIRED = Desired(ports={80: 30080}, servers=frozenset({1, 2}))


def test_a_new_load_balancer_gets_all_ports_and_servers() -> None:
    assert plan(DESIRED, Observed()) == (
        Step("create load balancer"),
        Step("add port", 80),
        Step("add server", 1),
        Step("add server", 2),
    )


def test_nothing_is_done_twice() -> None:
    same = Observed(exists=True, ports=DESIRED.ports, servers=DESIRED.servers)
    assert plan(DESIRED, same) == ()


def test_only_the_difference_is_changed() -> None:
    other = Observed(exists=True, ports={80: 30001, 81: 30081}, servers=frozenset({2, 3}))
    actions = [str(step) for step in plan(DESIRED, other)]
    assert actions == ["change port 80", "remove port 81", "add server 1", "remove server 3"]
