"""Plans changes of a load balancer's targets and of its private network."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ccm.hetzner.api.models import LoadBalancer, LoadBalancerTarget, PrivateNet, TargetIp, TargetServer
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.plan.steps import ENABLE_PUBLIC, Change, Json, Key, keys_of
from ccm.hetzner.load_balancers.targets import Target, target_of

_NOTHING = frozenset[Key]()


def change_targets(desired: DesiredState, actual: LoadBalancer) -> tuple[list[Change], list[Change]]:
    """Plan the steps to attach the network, and the changes of targets."""
    found = (target_of(actual_target) for actual_target in actual.targets)
    present = {
        target.identity: target
        for target in found
        if target is not None and target.identity not in desired.foreign_targets
    }
    network: list[Change] = []
    wanted = desired.network
    if wanted is not None and not actual.is_in(wanted, desired.private_ip):
        aside = list(_step_aside(desired, actual, present.values()))
        present |= {step.about.identity: step.about for step in aside if isinstance(step.about, Target)}
        leave = [_detach(net.network) for net in actual.private_net]
        needs = keys_of(leave)
        back = [_attach(net.network, net.ip, needs) for net in actual.private_net]
        ip, ip_range = desired.private_ip, desired.ip_range
        enter = _attach(wanted, ip, needs, ip_range=ip_range, otherwise=next(iter(back), None))
        network = [*aside, *leave, enter]
    if desired.targets is None:
        return network, []
    entered = keys_of(network[-1:])
    opened = frozenset({ENABLE_PUBLIC}) if desired.public and not actual.public_net.enabled else _NOTHING
    adds: list[Change] = []
    switches: list[Change] = []
    for target in desired.targets:
        needs = entered if target.private or target.ip else opened
        before = present.get(target.identity)
        if before is None:
            adds.append(_add(target, needs))
        elif before != target:
            remove = _remove(before, needs)
            switches += [remove, _add(target, needs | {remove.key})]
    identities = {target.identity for target in desired.targets}
    removes = [_remove(target) for identity, target in present.items() if identity not in identities]
    kind = desired.type if desired.type and actual.fits(desired.type) else actual.load_balancer_type
    # At the limit, a removal comes before each addition.
    room = max(0, kind.max_targets - len(actual.targets))
    return network, [*switches, *_in_turns(adds, removes, room)]


def _step_aside(desired: DesiredState, actual: LoadBalancer, present: Iterable[Target]) -> Iterator[Change]:
    """Use public addresses of targets while the private addresses are unreachable."""
    if not actual.private_net or not (actual.public_net.enabled or desired.public):
        return
    for target in present:
        if target.private and target.server in desired.reachable:
            remove = _remove(target)
            yield remove
            yield _add(Target(server=target.server), frozenset({remove.key}))


def _in_turns(adds: Sequence[Change], removes: Sequence[Change], room: int) -> Iterator[Change]:
    """Add targets up to the limit; then remove one target before each further addition."""
    yield from adds[:room]
    waiting, going = adds[room:], list(removes)
    for add in waiting:
        if going:
            yield going.pop(0)
        yield add
    yield from going


def _attach(
    network: int, ip: str, needs: frozenset[Key], *, ip_range: str = "", otherwise: Change | None = None
) -> Change:
    """Attach to a network. Without ``ip``, the API chooses the address."""
    place = f" as {ip}" if ip else f" in {ip_range}" if ip_range else ""
    asked = {key: value for key, value in {"ip": ip, "ip_range": ip_range}.items() if value}
    return Change(
        "attach_to_network",
        network,
        f"attach to network {network}{place}",
        {"network": network, **asked},
        lambda balancer: replace(balancer, private_net=(*balancer.private_net, PrivateNet(network, ip))),
        unforeseen=True,
        otherwise=otherwise,
        needs=needs,
    )


def _detach(network: int) -> Change:
    def effect(balancer: LoadBalancer) -> LoadBalancer:
        return replace(
            balancer, private_net=tuple(net for net in balancer.private_net if net.network != network)
        )

    text = f"detach from network {network}"
    return Change("detach_from_network", network, text, {"network": network}, effect, unforeseen=True)


def _add(target: Target, needs: frozenset[Key]) -> Change:
    if target.server:
        server = TargetServer(target.server)
        new = LoadBalancerTarget("server", server=server, use_private_ip=target.private)
    else:
        new = LoadBalancerTarget("ip", ip=TargetIp(target.ip))
    return Change(
        "add_target",
        target,
        f"add {target}",
        target_body(target),
        lambda balancer: replace(balancer, targets=(*balancer.targets, new)),
        needs=needs,
    )


def _remove(target: Target, needs: frozenset[Key] = _NOTHING) -> Change:
    def effect(balancer: LoadBalancer) -> LoadBalancer:
        kept = [
            there
            for there in balancer.targets
            if (at := target_of(there)) is None or at.identity != target.identity
        ]
        return replace(balancer, targets=tuple(kept))

    body = target_body(target)
    body.pop("use_private_ip", None)
    return Change("remove_target", target, f"remove {target}", body, effect, needs=needs)


def target_body(target: Target) -> Json:
    """A target in the format of requests."""
    if target.server:
        return {"type": "server", "server": {"id": target.server}, "use_private_ip": target.private}
    return {"type": "ip", "ip": {"ip": target.ip}}
