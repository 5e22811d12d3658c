import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ccm.hetzner.api.models import (
    Algorithm,
    HealthCheck,
    HealthCheckHttp,
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PrivateNet,
    Protection,
    PublicAddress,
    ServiceHttp,
    TargetIp,
    TargetServer,
)
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.listeners import comparable
from ccm.hetzner.load_balancers.plan.planner import changes as plan
from ccm.hetzner.load_balancers.plan.steps import Change as Step
from ccm.hetzner.load_balancers.plan.steps import Key
from ccm.hetzner.load_balancers.spec import SETTINGS
from ccm.hetzner.load_balancers.targets import Target, target_of

TYPES = (
    LoadBalancerType(1, "lb11", max_services=4, max_targets=5),
    LoadBalancerType(2, "lb21", max_services=8, max_targets=9),
)
NETWORK, OTHER_NETWORK = 7, 8
PORTS = st.sampled_from([25, 80, 443, 8080, 8443])

listener_http = st.builds(
    ServiceHttp,
    cookie_lifetime=st.sampled_from([300, 600]),
    certificates=st.just((1,)),
    redirect_http=st.booleans(),
    sticky_sessions=st.booleans(),
)
check_http = st.builds(
    HealthCheckHttp, path=st.sampled_from(["/", "/healthz"]), status_codes=st.just(("2??",))
)
checks = st.builds(
    HealthCheck,
    protocol=st.sampled_from(["tcp", "http"]),
    port=st.just(30000),
    interval=st.sampled_from([5, 15]),
    http=st.none() | check_http,
)
listeners = st.builds(
    LoadBalancerService,
    protocol=st.sampled_from(["tcp", "http", "https"]),
    listen_port=PORTS,
    destination_port=st.sampled_from([30000, 30001]),
    proxyprotocol=st.booleans(),
    health_check=checks,
    http=st.none() | listener_http,
)
wanted_targets = st.one_of(
    st.builds(Target, server=st.integers(1, 9), private=st.booleans()),
    st.builds(Target, ip=st.sampled_from(["198.51.100.1", "198.51.100.2"])),
)


def _disjoint(chosen: list[LoadBalancerService], most: int) -> tuple[LoadBalancerService, ...]:
    """Listeners that can live on one load balancer."""
    kept: list[LoadBalancerService] = []
    taken: set[int] = set()
    for one in map(comparable, chosen):
        if not one.ports & taken:
            kept.append(one)
            taken |= one.ports
    return tuple(kept[:most])


def _distinct(chosen: list[Target], most: int) -> tuple[Target, ...]:
    return tuple({one.identity: one for one in chosen}.values())[:most]


def _wire(target: Target) -> LoadBalancerTarget:
    if target.server:
        return LoadBalancerTarget("server", server=TargetServer(target.server), use_private_ip=target.private)
    return LoadBalancerTarget("ip", ip=TargetIp(target.ip))


@st.composite
def actuals(draw: Any) -> LoadBalancer:
    kind = draw(st.sampled_from(TYPES))
    targets = [
        _wire(one) for one in _distinct(draw(st.lists(wanted_targets, max_size=8)), kind.max_targets - 1)
    ]
    if draw(st.booleans()):
        targets.append(LoadBalancerTarget("label_selector"))
    return LoadBalancer(
        id=1,
        name=draw(st.sampled_from(["a", "b"])),
        public_net=LoadBalancerPublicNet(
            draw(st.booleans()),
            PublicAddress("203.0.113.1", draw(st.sampled_from(["x.example", None]))),
            PublicAddress("2001:db8::1", None),
        ),
        private_net=tuple(
            PrivateNet(network, f"10.0.0.{network}")
            for network in draw(st.sampled_from([(), (NETWORK,), (OTHER_NETWORK,)]))
        ),
        load_balancer_type=kind,
        protection=Protection(draw(st.booleans())),
        labels=draw(st.dictionaries(st.sampled_from("ab"), st.just("1"))),
        services=_disjoint(draw(st.lists(listeners, max_size=6)), kind.max_services),
        targets=tuple(targets),
        algorithm=Algorithm(draw(st.sampled_from(["round_robin", "least_connections"]))),
    )


@st.composite
def desires(draw: Any) -> DesiredState:
    kind = draw(st.sampled_from(TYPES))
    return DesiredState(
        name=draw(st.sampled_from(["a", "b"])),
        labels=draw(st.dictionaries(st.sampled_from("abc"), st.just("1"))),
        type=kind,
        public=draw(st.sampled_from([True, False, None])),
        network=draw(st.sampled_from([None, NETWORK])),
        private_ip=draw(st.sampled_from(["", "10.0.0.99"])),
        listeners=_disjoint(draw(st.lists(listeners, max_size=6)), kind.max_services),
        targets=_distinct(draw(st.lists(wanted_targets, max_size=8)), kind.max_targets - 1),
        rdns={"ipv4": "y.example"} if draw(st.booleans()) else {},
        settings=draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "algorithm": st.sampled_from(["round_robin", "least_connections"]),
                    "protection": st.booleans(),
                },
            )
        ),
        reachable=frozenset(draw(st.sets(st.integers(1, 9)))),
    )


def run(steps: list[Step], balancer: LoadBalancer) -> LoadBalancer:
    """Apply steps to a load balancer that refuses what Hetzner would refuse."""
    for step in steps:
        balancer = step.effect(balancer)
        identities = [one.identity for one in map(target_of, balancer.targets) if one is not None]
        assert len(identities) == len(set(identities)), f"{step}: a target twice"
        ports = [port for service in balancer.services for port in comparable(service).ports]
        assert len(ports) == len(set(ports)), f"{step}: a port twice"
        assert len(balancer.private_net) <= 1, f"{step}: in two networks"
        if step.operation == "change_type":
            assert len(balancer.targets) <= balancer.load_balancer_type.max_targets, (
                f"{step}: too many targets"
            )
            assert len(balancer.services) <= balancer.load_balancer_type.max_services, (
                f"{step}: too many services"
            )
    return balancer


@given(desires(), actuals())
def test_a_plan_leads_to_what_is_desired(desired: DesiredState, actual: LoadBalancer) -> None:
    reached = run(plan(desired, actual), actual)
    assert plan(desired, reached) == []
    assert {service.listen_port: comparable(service) for service in reached.services} == {
        listener.listen_port: listener for listener in desired.listeners
    }
    present = {one for one in map(target_of, reached.targets) if one is not None}
    assert present == set(desired.targets or ())
    assert reached.name == desired.name
    assert reached.labels == desired.labels
    assert reached.load_balancer_type == desired.type
    public = actual.public_net.enabled if desired.public is None else desired.public
    assert reached.public_net.enabled is public
    assert all(SETTINGS[name].value_of(reached) == value for name, value in desired.settings.items())
    assert reached.public_net.ipv4.dns_ptr == desired.rdns.get("ipv4", actual.public_net.ipv4.dns_ptr)


@given(desires(), actuals())
def test_every_step_needs_only_steps_that_come_before_it(desired: DesiredState, actual: LoadBalancer) -> None:
    before: set[Key] = set()
    for planned in plan(desired, actual):
        assert planned.needs <= before
        assert planned.key not in before
        before.add(planned.key)


@given(desires(), actuals(), st.sets(PORTS), st.sets(st.integers(1, 9)))
def test_parts_of_others_stay(
    desired: DesiredState, actual: LoadBalancer, ports: set[int], servers: set[int]
) -> None:
    foreign = {service.listen_port for service in actual.services} & ports
    taken = {
        port
        for service in actual.services
        if service.listen_port in foreign
        for port in comparable(service).ports
    }
    identities = {(server, "") for server in servers}
    desired = dataclasses.replace(
        desired,
        type=None,
        network=None,
        listeners=tuple(listener for listener in desired.listeners if not listener.ports & taken)[:1],
        targets=tuple(one for one in desired.targets or () if one.identity not in identities)[:1],
        foreign_ports=frozenset(foreign),
        foreign_targets=frozenset(identities),
    )
    reached = actual
    for planned in plan(desired, actual):
        reached = planned.effect(reached)
    kept = [service for service in actual.services if service.listen_port in foreign]
    assert [service for service in reached.services if service.listen_port in foreign] == kept

    def theirs(balancer: LoadBalancer) -> list[LoadBalancerTarget]:
        found = ((one, target_of(one)) for one in balancer.targets)
        return [one for one, target in found if target is None or target.identity in identities]

    assert theirs(reached) == theirs(actual)


@given(desires(), actuals())
def test_targets_stay_while_there_is_room(desired: DesiredState, actual: LoadBalancer) -> None:
    """Never fewer targets on the way than at the worse of both ends, but for one that changes sides."""
    at_least = min(len(actual.targets), len(desired.targets or ())) - 1
    balancer = actual
    for planned in plan(desired, actual):
        balancer = planned.effect(balancer)
        assert len(balancer.targets) >= at_least
