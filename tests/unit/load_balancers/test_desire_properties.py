from dataclasses import replace
from typing import Any

from balancer_site import LABEL, UID, view
from desired_cases import NO_DEFAULTS
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import ServiceView
from ccm.hetzner.api.models import (
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PrivateNet,
    PublicAddress,
    Server,
    ServerPublicNet,
    TargetServer,
)
from ccm.hetzner.load_balancers.desired import decide
from ccm.hetzner.load_balancers.desired.listener_choice import wanted_listeners
from ccm.hetzner.load_balancers.listeners import comparable, fields_of
from ccm.hetzner.load_balancers.observed.ownership import ClusterScope, locate
from ccm.hetzner.load_balancers.ownership_labels import ports_by_label, with_ownership
from ccm.hetzner.load_balancers.plan import plan
from ccm.hetzner.load_balancers.plan.steps import Change
from ccm.hetzner.load_balancers.spec.load_balancer_spec import default_name, read
from ccm.hetzner.load_balancers.targets import Candidates, Target, target_of

KIND = LoadBalancerType(1, "lb11", max_services=5, max_targets=6)
OTHER = "99999999-8888-7777-6666-555555555555"
TARGETS = tuple(Target(server=number) for number in (1, 2, 3))
SERVERS = {
    number: Server(number, f"n{number}", public_net=ServerPublicNet(PublicAddress("203.0.113.9")))
    for number in (1, 2, 3)
}

choices: dict[str, list[str]] = {
    "name": ["shop", "web"],
    "algorithm-type": ["least_connections", "round_robin"],
    "disable-public-network": ["true", "false"],
    "delete-protection": ["true", "false"],
    "ipv4-rdns": ["a.example.com", "b.example.com"],
    "ipv6-rdns": ["c.example.com"],
    "labels": ["team=shop", "team=web,stage=live", "owner=us"],
    "protocol": ["http", "tcp"],
    "port.80.uses-proxyprotocol": ["true"],
    "health-check-interval": ["5"],
    "share": ["edge"],
    "preserve-foreign": ["true"],
    "private-ipv4": ["10.0.0.9"],
}
annotations = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in choices.items()}
)
ports = st.lists(st.sampled_from([25, 80, 443, 8080]), min_size=1, max_size=3, unique=True)


@st.composite
def services(draw: Any, uid: str = UID) -> ServiceView:
    return view("web", *draw(ports), uid=uid, annotations=draw(annotations))


@st.composite
def balancers(draw: Any) -> LoadBalancer:
    """One that is the Service's, but was treated by others."""
    return LoadBalancer(
        1,
        draw(st.sampled_from(["shop", "old"])),
        public_net=LoadBalancerPublicNet(
            draw(st.booleans()), PublicAddress("203.0.113.1", "x.example"), PublicAddress("2001:db8::1", None)
        ),
        private_net=draw(st.sampled_from([(), (PrivateNet(7, "10.0.0.5"),), (PrivateNet(8, "10.8.0.5"),)])),
        load_balancer_type=KIND,
        labels={
            LABEL: UID,
            **draw(st.dictionaries(st.sampled_from(["owner", "team"]), st.just("them"))),
            **draw(st.sampled_from([{}, {"ccm-from-scratch/namespace": "shop"}])),
        },
        services=tuple(
            LoadBalancerService("tcp", port, 30000) for port in draw(st.sets(st.sampled_from([22, 80])))
        ),
        targets=tuple(
            LoadBalancerTarget("server", server=TargetServer(number))
            for number in draw(st.sets(st.sampled_from([1, 9])))
        ),
    )


def serve(service: ServiceView, balancer: LoadBalancer, *, times: int = 1) -> tuple[LoadBalancer, int]:
    """Plan and apply so often; returns what came of it, and how many steps the last time had."""
    steps = 0
    for _ in range(times):
        spec = read(service, NO_DEFAULTS, network=True)
        assert spec.problems == {}
        observed = replace(
            locate(spec, with_ownership(spec.service, [balancer]), ClusterScope("c1")),
            network=7,
            candidates=Candidates({f"n{one.server}": one for one in TARGETS}),
            servers=SERVERS,
            ours=frozenset(one.identity for one in TARGETS),
        )
        planned = [one for one in plan(decide(spec, observed), observed) if isinstance(one, Change)]
        steps = len(planned)
        for one in planned:
            balancer = one.effect(balancer)
    return balancer, steps


@given(services(), balancers())
def test_once_is_enough(service: ServiceView, balancer: LoadBalancer) -> None:
    reached, _ = serve(service, balancer)
    again, steps = serve(service, reached, times=2)
    assert steps == 0
    assert again.labels[LABEL] == UID


@given(services(), balancers())
def test_without_annotations_the_defaults_come_back(service: ServiceView, balancer: LoadBalancer) -> None:
    plain = view("web", *(port.port for port in service.ports))
    never, _ = serve(plain, balancer, times=2)
    reached, _ = serve(service, never, times=2)
    if "share" in "".join(service.annotations):
        return  # whoever has shared once goes on to tell listeners apart
    back, _ = serve(plain, reached, times=2)
    assert back.labels == {key: value for key, value in never.labels.items() if key in back.labels} | {
        key: back.labels[key] for key in back.labels.keys() - never.labels.keys() if "/" in key
    }
    assert not any("annotated" in key or "label-" in key for key in back.labels)
    # Public side and protection are left as they were found, but for what was annotated.
    assert back.protection.delete is never.protection.delete or "delete-protection" in str(
        service.annotations
    )
    assert back.name in {never.name, default_name(plain)}
    assert back.algorithm.type in {never.algorithm.type, "round_robin"}
    fresh, _ = wanted_listeners(plain.ports, read(plain, NO_DEFAULTS, network=True).ports, {})
    for mine, other, new in zip(back.services, never.services, fresh, strict=True):
        assert (mine.listen_port, mine.protocol) == (other.listen_port, other.protocol)
        kept, default = fields_of(comparable(other)), fields_of(new)
        assert all(value in {kept[key], default[key]} for key, value in fields_of(comparable(mine)).items())


@given(services(), services(uid=OTHER), balancers())
def test_sharing_services_leave_each_other_alone(
    leader: ServiceView, member: ServiceView, balancer: LoadBalancer
) -> None:
    first = view("web", *(one.port for one in leader.ports), annotations={"share": "edge"})
    second = view("api", *(one.port for one in member.ports), uid=OTHER, annotations={"share": "edge"})
    shared, _ = serve(first, balancer, times=2)
    both, _ = serve(second, shared, times=2)
    mine = {port for port, uid in ports_by_label(shared).items() if uid == UID}
    assert {service.listen_port: service for service in both.services if service.listen_port in mine} == {
        service.listen_port: service for service in shared.services if service.listen_port in mine
    }
    assert (both.name, both.algorithm, both.public_net, both.labels[LABEL]) == (
        shared.name,
        shared.algorithm,
        shared.public_net,
        UID,
    )
    assert serve(first, both)[1] == 0
    assert serve(second, both)[1] == 0


@given(services(), balancers())
def test_preserved_parts_of_others_stay(service: ServiceView, balancer: LoadBalancer) -> None:
    kept = view("web", *(port.port for port in service.ports), annotations={"preserve-foreign": "true"})
    reached, _ = serve(kept, balancer, times=2)
    foreign = {target_of(target) for target in balancer.targets} - set(TARGETS)
    assert {target_of(target) for target in reached.targets} >= foreign
    assert [net.network for net in reached.private_net] == (
        [net.network for net in balancer.private_net] or [7]
    )
    others = {"owner", "team"} & balancer.labels.keys()
    assert {key: reached.labels[key] for key in others} == {key: balancer.labels[key] for key in others}
