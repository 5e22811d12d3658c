"""Changes of a load balancer's labels and name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired import Desired
from ccm.hetzner.load_balancers.labels import FIELD, PORT
from ccm.hetzner.load_balancers.plan.steps import Change, Key, keys_of


def change_labels(
    desired: Desired, actual: LoadBalancer, resets: Iterable[Change], listeners: Sequence[Change]
) -> tuple[list[Change], list[Change]]:
    """Labels and name, and the labels that can only go after the listeners are what they should be.

    Without the labels that say whose a listener is, one that can't go would be nobody's; without those that
    remember annotations, one that can't change would stay as it was annotated.

    Args:
        desired: What it should be.
        actual: What it is.
        resets: What brings settings back to their defaults.
        listeners: What changes the listeners.
    """
    going = [one for one in listeners if one.operation in {"delete_service", "update_service"}]
    keys = [f"{PORT}{one.body['listen_port']}" for one in going if one.operation == "delete_service"]
    if any(one.operation == "update_service" for one in going):
        keys += [key for key in actual.labels if key.startswith(FIELD)]
    kept = {key: actual.labels[key] for key in keys if key in actual.labels and key not in desired.labels}
    first = list(_identity(desired, actual, {**desired.labels, **kept}, keys_of(resets)))
    last = update_labels(
        "old labels", "remove labels that are not needed any more", desired.labels, keys_of(going)
    )
    return first, [last] if kept else []


def _identity(
    desired: Desired, actual: LoadBalancer, labels: Mapping[str, str], needs: frozenset[Key]
) -> Iterator[Change]:
    # A label remembers what is ours to reset; it must not go before that is done.
    rename = update_labels("name", f"rename to {desired.name}", labels, needs, desired.name)
    if desired.name != actual.name and "name" in desired.resets:
        # At once, for the label that remembers the name must not go before it.
        yield rename
        return
    if labels != actual.labels:
        # Without the new name, for that may be taken, and the labels say whose the load balancer is.
        yield update_labels("labels", "set labels", labels, needs)
    if desired.name != actual.name:
        yield rename


def update_labels(
    about: str, text: str, labels: Mapping[str, str], needs: frozenset[Key], name: str = ""
) -> Change:
    """The change that gives a load balancer exactly these labels, and a name if there is one."""
    body = {"labels": dict(labels), **({"name": name} if name else {})}
    return Change(
        "update",
        about,
        text,
        body,
        lambda one: replace(one, name=name or one.name, labels=dict(labels)),
        needs=needs,
    )
