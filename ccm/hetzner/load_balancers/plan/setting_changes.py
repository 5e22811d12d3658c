"""Plans changes of a load balancer's settings, labels and name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.ownership_labels import FIELD, PORT
from ccm.hetzner.load_balancers.plan.steps import Change, Key, keys_of
from ccm.hetzner.load_balancers.spec import SETTINGS, Setting


def change_type(
    desired: DesiredState, actual: LoadBalancer, others: Iterable[Change]
) -> tuple[list[Change], list[Change]]:
    """Plan a change of the type, now or later. If the type is too small now, removals come first."""
    wanted = desired.type
    if wanted is None or wanted.name == actual.load_balancer_type.name:
        return [], []
    now = actual.fits(wanted)
    going = [change for change in others if change.operation in {"delete_service", "remove_target"}]
    change = Change(
        "change_type",
        "type",
        f"change type to {wanted.name}",
        {"load_balancer_type": wanted.name},
        lambda balancer: replace(balancer, load_balancer_type=wanted),
        resets="type",
        needs=keys_of(() if now else going),
    )
    return ([change], []) if now else ([], [change])


def change_settings(
    desired: DesiredState, actual: LoadBalancer, targets: Iterable[Change]
) -> Iterator[Change]:
    """Plan changes of other settings. The public interface is disabled only after all target changes."""
    public = actual.public_net
    for family, address in (("ipv4", public.ipv4), ("ipv6", public.ipv6)):
        if family in desired.rdns and address.ip:
            name = desired.rdns[family]
            if name is None or name != address.dns_ptr:
                yield _rdns(family, address.ip, name)
    if desired.public is not None and desired.public is not public.enabled:
        yield _public(enabled=desired.public, needs=keys_of(() if desired.public else targets))
    for name, value in desired.settings.items():
        if SETTINGS[name].value_of(actual) != value:
            yield _setting(SETTINGS[name], value)


def _setting(setting: Setting, value: object) -> Change:
    return Change(
        setting.action,
        setting.name,
        setting.text(value),
        setting.action_body(value),
        lambda balancer: setting.applied(balancer, value),
        resets=setting.name,
    )


def _public(*, enabled: bool, needs: frozenset[Key]) -> Change:
    verb = "enable" if enabled else "disable"
    return Change(
        f"{verb}_public_interface",
        "public",
        f"{verb} the public interface",
        {},
        lambda balancer: replace(balancer, public_net=replace(balancer.public_net, enabled=enabled)),
        resets="public" if enabled else "",
        needs=needs,
    )


def _rdns(family: str, ip: str, name: str | None) -> Change:
    """Set a reverse DNS name; None = the API's default name."""

    def effect(balancer: LoadBalancer) -> LoadBalancer:
        address = {family: replace(balancer.public_net.of(family), ip=ip, dns_ptr=name)}
        return replace(balancer, public_net=replace(balancer.public_net, **address))

    return Change(
        "change_dns_ptr",
        family,
        f"set the reverse DNS name of {ip} to {name or 'its default'}",
        {"ip": ip, "dns_ptr": name},
        effect,
        unforeseen=name is None,
        resets=family if name is None else "",
    )


def change_labels(
    desired: DesiredState, actual: LoadBalancer, resets: Iterable[Change], listeners: Sequence[Change]
) -> tuple[list[Change], list[Change]]:
    """Plan labels and name, and the removal of labels that must stay until listeners have changed.

    If a listener can't be removed, its label must still name the owner. If a listener can't be changed, the
    labels must still contain its annotated fields. ``resets`` reset settings to their defaults, ``listeners``
    change listeners.
    """
    going = [change for change in listeners if change.operation in {"delete_service", "update_service"}]
    keys = [f"{PORT}{step.body['listen_port']}" for step in going if step.operation == "delete_service"]
    if any(step.operation == "update_service" for step in going):
        keys += [key for key in actual.labels if key.startswith(FIELD)]
    kept = {key: actual.labels[key] for key in keys if key in actual.labels and key not in desired.labels}
    first = list(_identity(desired, actual, {**desired.labels, **kept}, keys_of(resets)))
    last = update_labels(
        "old labels", "remove labels that are no longer needed", desired.labels, keys_of(going)
    )
    return first, [last] if kept else []


def _identity(
    desired: DesiredState, actual: LoadBalancer, labels: Mapping[str, str], needs: frozenset[Key]
) -> Iterator[Change]:
    # A label stores which settings we must reset, so the label stays until the reset is done.
    rename = update_labels("name", f"rename to {desired.name}", labels, needs, desired.name)
    if desired.name != actual.name and "name" in desired.resets:
        # One step for both, because the label that stores the annotated name must stay until the rename.
        yield rename
        return
    if labels != actual.labels:
        # First without the new name, which may be in use, because the labels contain the owner.
        yield update_labels("labels", "set labels", labels, needs)
    if desired.name != actual.name:
        yield rename


def update_labels(
    about: str, text: str, labels: Mapping[str, str], needs: frozenset[Key], name: str = ""
) -> Change:
    """The change that sets all labels of a load balancer, and optionally its name."""
    body = {"labels": dict(labels), **({"name": name} if name else {})}
    return Change(
        "update",
        about,
        text,
        body,
        lambda balancer: replace(balancer, name=name or balancer.name, labels=dict(labels)),
        needs=needs,
    )
