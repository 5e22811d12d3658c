"""From a load balancer as it is to one as it should be, in as few changes as possible. Pure.

The order keeps traffic flowing: what is new comes before what goes, as far as there is room; a target changes
from its public to its private address alone, while the others serve. A step names the steps without which it
makes no sense; all others are tried whatever happened before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.desired.type import fits
from ccm.hetzner.load_balancers.facts.targets import Target, target_of
from ccm.hetzner.load_balancers.labels import FIELD, PORT
from ccm.hetzner.load_balancers.listeners import comparable
from ccm.hetzner.load_balancers.plan.steps import (
    Change,
    Planned,
    add_service,
    add_target,
    attach,
    change_algorithm,
    change_protection,
    change_public,
    change_rdns,
    change_type,
    delete_service,
    detach,
    remove_target,
    update,
    update_service,
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
    early = [one for one in (*growth, *algorithm, *(public if desired.public else ())) if one not in resets]
    kept = _labels_of(removals, listeners, desired, actual)
    return [
        *resets,
        *_identity(desired, actual, resets, kept),
        *early,
        *network,
        *removals,
        *listeners,
        *_unlabelled(desired, [*removals, *listeners], kept),
        *targets,
        *shrinking,
        *(one for one in settings if one not in resets and one not in early),
    ]


def _identity(
    desired: Desired, actual: LoadBalancer, resets: Iterable[Planned[Change]], kept: Mapping[str, str]
) -> Iterator[Planned[Change]]:
    labels = {**desired.labels, **kept}
    # A label remembers what is ours to reset; it must not go before that is done.
    needs = _texts(one.step for one in resets)
    if desired.name != actual.name and "name" in desired.resets:
        # At once, for the label that remembers the name must not go before it.
        yield Planned(update(labels, desired.name), needs)
        return
    if labels != actual.labels:
        # Without the new name, for that may be taken, and the labels say whose the load balancer is.
        yield Planned(update(labels), needs)
    if desired.name != actual.name:
        yield Planned(update(labels, desired.name), needs)


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
    keys = [f"{PORT}{one.step.body['listen_port']}" for one in removals]
    if any(one.step.operation == "update_service" for one in changes):
        keys += [key for key in actual.labels if key.startswith(FIELD)]
    return {key: actual.labels[key] for key in keys if key in actual.labels and key not in desired.labels}


def _unlabelled(
    desired: Desired, before: Iterable[Planned[Change]], kept: Mapping[str, str]
) -> Iterator[Planned[Change]]:
    if kept:
        going = (one.step for one in before if one.step.operation in {"delete_service", "update_service"})
        yield Planned(update(desired.labels, final=True), _texts(going))


def _type(
    desired: Desired, actual: LoadBalancer, others: Iterable[Planned[Change]]
) -> tuple[list[Planned[Change]], list[Planned[Change]]]:
    """Changing to a type that is too small now has to wait for what is removed."""
    wanted = desired.type
    if wanted is None or wanted.name == actual.load_balancer_type.name:
        return [], []
    if fits(wanted, actual):
        return [Planned(change_type(wanted))], []
    going = (one.step for one in others if one.step.operation in {"delete_service", "remove_target"})
    return [], [Planned(change_type(wanted), _texts(going))]


def _algorithm(desired: Desired, actual: LoadBalancer) -> list[Planned[Change]]:
    if desired.algorithm is None or desired.algorithm == actual.algorithm.type:
        return []
    return [Planned(change_algorithm(desired.algorithm))]


def _public(
    desired: Desired, actual: LoadBalancer, targets: Iterable[Planned[Change]]
) -> list[Planned[Change]]:
    if desired.public is None or desired.public is actual.public_net.enabled:
        return []
    needs = frozenset[str]() if desired.public else _texts(one.step for one in targets)
    return [Planned(change_public(enabled=desired.public), needs)]


def _network(desired: Desired, actual: LoadBalancer) -> tuple[list[Planned[Change]], frozenset[str]]:
    """Steps into the network, and the text of the one that enters it."""
    wanted = desired.network
    current = {net.network: net.ip for net in actual.private_net}
    if wanted is None or (wanted in current and desired.private_ip in ("", current[wanted])):
        return [], frozenset()
    aside = list(_step_aside(desired, actual))
    leave = [Planned(detach(network)) for network in current]
    enter = attach(wanted, desired.private_ip, desired.ip_range)
    entering = Planned(enter, _texts(one.step for one in leave))
    return [*aside, *leave, entering], _texts([enter])


def _step_aside(desired: Desired, actual: LoadBalancer) -> Iterator[Planned[Change]]:
    """Serve by public addresses while the private ones are out of reach."""
    if not actual.private_net or not (actual.public_net.enabled or desired.public):
        return
    for target in _present(desired, actual).values():
        if target.private and target.server in desired.reachable:
            remove = remove_target(target)
            yield Planned(remove)
            yield Planned(add_target(Target(server=target.server)), _texts([remove]))


def _listeners(
    desired: Desired, actual: LoadBalancer
) -> tuple[Sequence[Planned[Change]], Sequence[Planned[Change]]]:
    """Steps that remove listeners, and those that change and add."""
    present = {one.listen_port: comparable(one) for one in actual.services}
    wanted = {one.listen_port: one for one in desired.listeners}
    removals = {
        port: delete_service(port)
        for port in present
        if port not in wanted and port not in desired.foreign_ports
    }
    freed = {port: str(step) for gone, step in removals.items() for port in present[gone].ports}
    changed = [one for port, one in wanted.items() if port in present and present[port] != one]
    # An update that gives a port up comes before one that takes it.
    changed.sort(key=lambda one: len(one.ports))
    updates = [(one, update_service(present[one.listen_port], one)) for one in changed]
    for listener, step in updates:
        freed.update(dict.fromkeys(present[listener.listen_port].ports - listener.ports, str(step)))
    adds = [(one, add_service(one)) for port, one in wanted.items() if port not in present]
    changes = [
        Planned(step, frozenset(freed[port] for port in listener.ports if port in freed) - {str(step)})
        for listener, step in (*updates, *adds)
    ]
    return [Planned(step) for step in removals.values()], changes


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
            one.step.target.identity: one.step.target
            for one in _step_aside(desired, actual)
            if one.step.operation == "add_target"
        }
    opened = _texts([change_public(enabled=True)] if desired.public and not actual.public_net.enabled else [])
    adds: list[Planned[Change]] = []
    switches: list[Planned[Change]] = []
    for target in desired.targets:
        needs = entered if target.private or target.ip else opened
        before = present.get(target.identity)
        if before is None:
            adds.append(Planned(add_target(target), needs))
        elif before != target:
            remove = remove_target(before)
            switches += [Planned(remove, needs), Planned(add_target(target), needs | _texts([remove]))]
    wanted = {target.identity for target in desired.targets}
    removes = [Planned(remove_target(one)) for identity, one in present.items() if identity not in wanted]
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
            yield Planned(change_rdns(family, address.ip, name))


def _protection(desired: Desired, actual: LoadBalancer) -> Iterator[Planned[Change]]:
    if desired.protection is not None and desired.protection != actual.protection.delete:
        yield Planned(change_protection(protected=desired.protection))


def _texts(steps: Iterable[Change]) -> frozenset[str]:
    return frozenset(str(step) for step in steps)
