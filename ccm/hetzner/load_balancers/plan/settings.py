"""Changes of what a load balancer is, besides its listeners and targets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.plan.steps import Change, Key, keys_of
from ccm.hetzner.load_balancers.wishes import SETTINGS, Setting


def change_type(
    desired: Desired, actual: LoadBalancer, others: Iterable[Change]
) -> tuple[list[Change], list[Change]]:
    """The type, now or later: one that is too small now has to wait for those of the others that remove."""
    wanted = desired.type
    if wanted is None or wanted.name == actual.load_balancer_type.name:
        return [], []
    now = actual.fits(wanted)
    going = [one for one in others if one.operation in {"delete_service", "remove_target"}]
    change = Change(
        "change_type",
        "type",
        f"change type to {wanted.name}",
        {"load_balancer_type": wanted.name},
        lambda one: replace(one, load_balancer_type=wanted),
        resets="type",
        needs=keys_of(() if now else going),
    )
    return ([change], []) if now else ([], [change])


def change_settings(desired: Desired, actual: LoadBalancer, targets: Iterable[Change]) -> Iterator[Change]:
    """All but the type; the public interface is only closed once the targets are what they should be."""
    public = actual.public_net
    for family, address in (("ipv4", public.ipv4), ("ipv6", public.ipv6)):
        if family in desired.rdns and address.ip:
            name = desired.rdns[family]
            if name is None or name != address.dns_ptr:
                yield _rdns(family, address.ip, name)
    if desired.public is not None and desired.public is not public.enabled:
        yield _public(enabled=desired.public, needs=keys_of(() if desired.public else targets))
    for name, value in desired.settings.items():
        if SETTINGS[name].observed(actual) != value:
            yield _setting(SETTINGS[name], value)


def _setting(setting: Setting, value: object) -> Change:
    return Change(
        setting.action,
        setting.name,
        setting.text(value),
        setting.action_body(value),
        lambda one: setting.applied(one, value),
        resets=setting.name,
    )


def _public(*, enabled: bool, needs: frozenset[Key]) -> Change:
    verb = "enable" if enabled else "disable"
    return Change(
        f"{verb}_public_interface",
        "public",
        f"{verb} the public interface",
        {},
        lambda one: replace(one, public_net=replace(one.public_net, enabled=enabled)),
        resets="public" if enabled else "",
        needs=needs,
    )


def _rdns(family: str, ip: str, name: str | None) -> Change:
    """Where no name is asked for, the API chooses one."""

    def effect(one: LoadBalancer) -> LoadBalancer:
        address = {family: replace(one.public_net.of(family), ip=ip, dns_ptr=name)}
        return replace(one, public_net=replace(one.public_net, **address))

    return Change(
        "change_dns_ptr",
        family,
        f"set the reverse DNS name of {ip} to {name or 'its default'}",
        {"ip": ip, "dns_ptr": name},
        effect,
        unforeseen=name is None,
        resets=family if name is None else "",
    )
