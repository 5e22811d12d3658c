"""From a load balancer as it is to one as it should be, in as few changes as possible. Pure.

The order keeps traffic flowing: what is new comes before what goes, as far as there is room; a target changes
from its public to its private address alone, while the others serve. A step names the steps without which it
makes no sense; all others are tried whatever happened before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerService
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.desired.type import fits
from ccm.hetzner.load_balancers.facts.targets import Target, target_of
from ccm.hetzner.load_balancers.labels import FIELD, PORT
from ccm.hetzner.load_balancers.listeners import comparable, occupied_ports
from ccm.hetzner.load_balancers.plan.steps import (
    AddService,
    AddTarget,
    Attach,
    Change,
    ChangeAlgorithm,
    ChangeProtection,
    ChangeRdns,
    ChangeType,
    DeleteService,
    Detach,
    DisablePublic,
    EnablePublic,
    Planned,
    RemoveTarget,
    Update,
    UpdateService,
)


def changes(desired: Desired, actual: LoadBalancer) -> list[Planned[Change]]:
    """The changes from actual to desired, in order; none if there is no difference."""
    network, entered = _network(desired, actual)
    removals, listeners = _listeners(desired, actual)
    targets = _targets(desired, actual, entered)
    growth, shrinking = _type(desired, actual, [*removals, *targets])
    public = _public(desired, actual, targets)
    algorithm = _algorithm(desired, actual)
    settings = [*_rdns(desired, actual), *public, *_protection(desired, actual)]
    resets = [one for one in (*growth, *algorithm, *settings) if one.step.resets in desired.resets]
    kept = _labels_of(removals, listeners, desired, actual)
    return [
        *resets,
        *_identity(desired, actual, resets, kept),
        *(one for one in growth if one not in resets),
        *(one for one in algorithm if one not in resets),
        *(one for one in public if one not in resets and isinstance(one.step, EnablePublic)),
        *network,
        *removals,
        *listeners,
        *_unlabelled(desired, [*removals, *listeners], kept),
        *targets,
        *shrinking,
        *(one for one in settings if one not in resets and not isinstance(one.step, EnablePublic)),
    ]


def _identity(
    desired: Desired, actual: LoadBalancer, resets: Iterable[Planned[Change]], kept: Mapping[str, str]
) -> Iterator[Planned[Change]]:
    labels = {**desired.labels, **kept}
    # A label remembers what is ours to reset; it must not go before that is done.
    needs = _texts(one.step for one in resets)
    if desired.name != actual.name and "name" in desired.resets:
        # At once, for the label that remembers the name must not go before it.
        yield Planned(Update(labels, desired.name), needs)
        return
    if labels != actual.labels:
        # Without the new name, for that may be taken, and the labels say whose the load balancer is.
        yield Planned(Update(labels), needs)
    if desired.name != actual.name:
        yield Planned(Update(labels, desired.name), needs)


def _labels_of(
    removals: Iterable[Planned[Change]],
    changes: Iterable[Planned[Change]],
    desired: Desired,
    actual: LoadBalancer,
) -> dict[str, str]:
    """Labels that must not go before the listeners are what they should be.

    Without those that say whose a listener is, one that can't go would be nobody's; without those that
    remember annotations, one that can't change would stay as it was annotated.
    """
    keys = [f"{PORT}{one.step.port}" for one in removals if isinstance(one.step, DeleteService)]
    if any(isinstance(one.step, UpdateService) for one in changes):
        keys += [key for key in actual.labels if key.startswith(FIELD)]
    return {key: actual.labels[key] for key in keys if key in actual.labels and key not in desired.labels}


def _unlabelled(
    desired: Desired, before: Iterable[Planned[Change]], kept: Mapping[str, str]
) -> Iterator[Planned[Change]]:
    if kept:
        going = (one.step for one in before if isinstance(one.step, DeleteService | UpdateService))
        yield Planned(Update(desired.labels, final=True), _texts(going))


def _type(
    desired: Desired, actual: LoadBalancer, others: Iterable[Planned[Change]]
) -> tuple[list[Planned[Change]], list[Planned[Change]]]:
    """Changing to a type that is too small now has to wait for what is removed."""
    wanted = desired.type
    if wanted is None or wanted.name == actual.load_balancer_type.name:
        return [], []
    if fits(wanted, actual):
        return [Planned(ChangeType(wanted))], []
    going = [one.step for one in others if isinstance(one.step, DeleteService | RemoveTarget)]
    return [], [Planned(ChangeType(wanted), _texts(going))]


def _algorithm(desired: Desired, actual: LoadBalancer) -> list[Planned[Change]]:
    if desired.algorithm is None or desired.algorithm == actual.algorithm.type:
        return []
    return [Planned(ChangeAlgorithm(desired.algorithm))]


def _public(
    desired: Desired, actual: LoadBalancer, targets: Iterable[Planned[Change]]
) -> list[Planned[Change]]:
    if desired.public is None or desired.public is actual.public_net.enabled:
        return []
    if desired.public:
        return [Planned(EnablePublic())]
    return [Planned(DisablePublic(), _texts(one.step for one in targets))]


def _network(desired: Desired, actual: LoadBalancer) -> tuple[list[Planned[Change]], frozenset[str]]:
    """Steps into the network, and the text of the one that enters it."""
    wanted = desired.network
    current = {net.network: net.ip for net in actual.private_net}
    if wanted is None or (wanted in current and desired.private_ip in ("", current[wanted])):
        return [], frozenset()
    aside = list(_step_aside(desired, actual))
    leave = [Planned(Detach(network)) for network in current]
    enter = Attach(wanted, desired.private_ip, desired.ip_range)
    entering = Planned(enter, _texts(one.step for one in leave))
    return [*aside, *leave, entering], _texts([enter])


def _step_aside(desired: Desired, actual: LoadBalancer) -> Iterator[Planned[Change]]:
    """Serve by public addresses while the private ones are out of reach."""
    if not actual.private_net or not (actual.public_net.enabled or desired.public):
        return
    for target in _present(desired, actual).values():
        if target.private and target.server in desired.reachable:
            remove = RemoveTarget(target)
            yield Planned(remove)
            yield Planned(AddTarget(Target(server=target.server)), _texts([remove]))


def _listeners(
    desired: Desired, actual: LoadBalancer
) -> tuple[Sequence[Planned[Change]], Sequence[Planned[Change]]]:
    """Steps that remove listeners, and those that change and add."""
    present = {one.listen_port: comparable(one) for one in actual.services}
    wanted = {one.listen_port: one for one in desired.listeners}
    goes = [port for port in present if port not in wanted and port not in desired.foreign_ports]
    freed = {port: str(DeleteService(gone)) for gone in goes for port in occupied_ports(present[gone])}
    updates: list[UpdateService] = []
    for port, listener in wanted.items():
        before = present.get(port)
        if before is not None and before != listener:
            updates.append(UpdateService(listener, _differences(before, listener)))
    # An update that gives a port up comes before one that takes it.
    updates.sort(key=lambda one: len(occupied_ports(one.listener)))
    for update in updates:
        before = occupied_ports(present[update.listener.listen_port])
        freed.update(dict.fromkeys(before - occupied_ports(update.listener), str(update)))
    adds = [AddService(listener) for port, listener in wanted.items() if port not in present]
    changes = [Planned(one, _freeing(one.listener, freed) - {str(one)}) for one in (*updates, *adds)]
    return [Planned(DeleteService(port)) for port in goes], changes


def _freeing(listener: LoadBalancerService, freed: Mapping[int, str]) -> frozenset[str]:
    return frozenset(freed[port] for port in occupied_ports(listener) if port in freed)


def _differences(before: LoadBalancerService, after: LoadBalancerService) -> tuple[str, ...]:
    return tuple(
        name
        for name in LoadBalancerService.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    )


def _present(desired: Desired, actual: LoadBalancer) -> dict[tuple[int, str], Target]:
    """The targets that are ours to change, by identity."""
    found = (target_of(one) for one in actual.targets)
    return {
        one.identity: one for one in found if one is not None and one.identity not in desired.foreign_targets
    }


def _targets(desired: Desired, actual: LoadBalancer, entered: frozenset[str]) -> list[Planned[Change]]:
    if desired.targets is None:
        return []
    present = _present(desired, actual)
    if entered:
        present |= {
            step.target.identity: step.target
            for step in (one.step for one in _step_aside(desired, actual))
            if isinstance(step, AddTarget)
        }
    opened = _texts([EnablePublic()] if desired.public and not actual.public_net.enabled else [])
    adds: list[Planned[Change]] = []
    switches: list[Planned[Change]] = []
    for target in desired.targets:
        needs = entered if target.private or target.ip else opened
        before = present.get(target.identity)
        if before is None:
            adds.append(Planned(AddTarget(target), needs))
        elif before != target:
            remove = RemoveTarget(before)
            switches += [Planned(remove, needs), Planned(AddTarget(target), needs | _texts([remove]))]
    wanted = {target.identity for target in desired.targets}
    removes = [Planned(RemoveTarget(one)) for identity, one in present.items() if identity not in wanted]
    return [*switches, *_in_turns(adds, removes, _room(desired, actual))]


def _room(desired: Desired, actual: LoadBalancer) -> int:
    """How many targets can be added before one has to go."""
    kind = desired.type if desired.type and fits(desired.type, actual) else actual.load_balancer_type
    return max(0, kind.max_targets - len(actual.targets))


def _in_turns(
    adds: Sequence[Planned[Change]], removes: Sequence[Planned[Change]], room: int
) -> Iterator[Planned[Change]]:
    """What is new first, as far as there is room; then one goes for each that comes."""
    yield from adds[:room]
    waiting, going = adds[room:], list(removes)
    for add in waiting:
        if going:
            yield going.pop(0)
        yield add
    yield from going


def _rdns(desired: Desired, actual: LoadBalancer) -> Iterator[Planned[Change]]:
    public = actual.public_net
    for family, address in (("ipv4", public.ipv4), ("ipv6", public.ipv6)):
        if family not in desired.rdns or not address.ip:
            continue
        name = desired.rdns[family]
        if name is None or name != address.dns_ptr:
            yield Planned(ChangeRdns(family, address.ip, name))


def _protection(desired: Desired, actual: LoadBalancer) -> Iterator[Planned[Change]]:
    if desired.protection is not None and desired.protection != actual.protection.delete:
        yield Planned(ChangeProtection(desired.protection))


def _texts(steps: Iterable[Change]) -> frozenset[str]:
    return frozenset(str(step) for step in steps)
