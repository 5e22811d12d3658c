"""Which settings are there because of annotations, so that taking one away restores the default. Pure.

For most settings what is not annotated simply has the API's default. These here are left alone unless they
were annotated once: other people set them too. A label remembers them. What the official CCM set is not
marked, as long as nothing else about its load balancer changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ccm.hetzner.load_balancers.annotations import Wishes
from ccm.hetzner.wire import LoadBalancer

OURS = "ccm-from-scratch/"
ANNOTATED = OURS + "annotated"
NAMESPACE = OURS + "namespace"
LABEL = OURS + "label-"

Setting = object  # a name, a boolean, or None; whatever the API answers
DEFAULT_TYPE = "lb11"
DEFAULTS: Mapping[str, Setting] = {
    "ipv4": None,
    "ipv6": None,
    "public": True,
    "protection": False,
    "type": DEFAULT_TYPE,
}


def _asked(wishes: Wishes) -> dict[str, Setting]:
    asked: dict[str, Setting] = dict(wishes.rdns)
    asked |= {"public": wishes.public, "protection": wishes.protection, "type": wishes.type or None}
    return {name: value for name, value in asked.items() if value is not None}


def _now(balancer: LoadBalancer) -> Mapping[str, Setting]:
    public = balancer.public_net
    return {
        "ipv4": public.ipv4.dns_ptr,
        "ipv6": public.ipv6.dns_ptr,
        "public": public.enabled,
        "protection": balancer.protection.delete,
        "type": balancer.load_balancer_type.name,
    }


def marked(balancer: LoadBalancer | None) -> frozenset[str]:
    """Names of :data:`DEFAULTS` that were set because of an annotation."""
    return (
        frozenset(balancer.labels.get(ANNOTATED, "").split("-")) & DEFAULTS.keys()
        if balancer
        else frozenset()
    )


def mark(wishes: Wishes, balancer: LoadBalancer | None, kept: frozenset[str] = frozenset()) -> str:
    """The label that remembers what is annotated.

    Args:
        wishes: The annotations.
        balancer: The load balancer, or None.
        kept: What can't go back to its default yet.
    """
    before = marked(balancer)
    now = DEFAULTS if balancer is None else _now(balancer)
    known = balancer is not None and NAMESPACE in balancer.labels
    asked = {
        name
        for name, value in _asked(wishes).items()
        if value != DEFAULTS[name] and (known or name in before or now[name] != value)
    }
    return "-".join(sorted(asked | (before & kept)))


def restored(wishes: Wishes, balancer: LoadBalancer | None) -> Mapping[str, Setting]:
    """Settings whose annotation was taken away, and what they go back to."""
    gone = marked(balancer) - _asked(wishes).keys()
    return {name: DEFAULTS[name] for name in sorted(gone)}


def with_annotated_labels(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """A load balancer's labels with those of the annotation ``labels``; former ones of it go.

    Args:
        present: Its labels now.
        wanted: What the annotation says.
    """
    former = {key for key in present if _label_mark(key) in present}
    marks = {_label_mark(key) for key in former}
    kept = {key: value for key, value in present.items() if key not in former | marks}
    return {**kept, **wanted, **{_label_mark(key): "" for key in wanted}}


def _label_mark(key: str) -> str:
    return LABEL + hashlib.sha256(key.encode()).hexdigest()[:8]
