"""Errors about a Service's load balancer, beside the API's, and helpers for their texts.

Their length doesn't depend on what a tenant wrote.

::

    CloudError
    ├── NotOurLoadBalancer         an existing one isn't ours to change
    └── Rejected
        └── InvalidAnnotations     annotations of the Service are wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ccm.cloud import CloudError, Ingress, Notice, Rejected

MAX_SHOWN_LENGTH = 80
MAX_SHOWN = 20


def shown(value: str) -> str:
    """A value in quotes, cut where it is long."""
    return repr(value if len(value) <= MAX_SHOWN_LENGTH else value[:MAX_SHOWN_LENGTH] + "…")


def enumerated(names: Sequence[str], *, between: str = ", ", limit: int = MAX_SHOWN) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return between.join(names[:limit]) + more


def quoted(names: Iterable[str]) -> str:
    """The first of some values in quotes, each cut where it is long."""
    several = [shown(name) for name in islice(names, MAX_SHOWN + 1)]
    return ", ".join(several[:MAX_SHOWN]) + (" and more" if len(several) > MAX_SHOWN else "")


class NotOurLoadBalancer(CloudError):
    """A load balancer exists that conflicts, and it isn't ours to change."""

    def __init__(self, message: str) -> None:
        super().__init__(message, notices=(Notice("LoadBalancerNotOurs", message),))


class InvalidAnnotations(Rejected):
    """Annotations of a Service are wrong; names them all."""

    def __init__(self, problems: Iterable[str]) -> None:
        text = enumerated([*problems], between="; ")
        super().__init__(text, notices=(Notice("InvalidLoadBalancerAnnotation", text),))


def explained(step: str, error: CloudError) -> CloudError:
    """An error that says which step failed."""
    whole = CloudError(f"{step}: {error.message}", notices=error.notices)
    whole.__cause__ = error
    return whole


def incomplete(
    errors: list[CloudError], notices: Iterable[Notice], ingress: tuple[Ingress, ...] = ()
) -> CloudError:
    """One error for several, at least one, with all that the owner should know.

    Args:
        errors: What is wrong. They may be other Services', too: a list that failed did so for all who waited.
        notices: What else the owner should know.
        ingress: How clients reach what there is.
    """
    others = tuple(notices)
    if len(errors) == 1 and not others and not ingress:
        return errors[0]
    of_errors = [notice for error in errors for notice in error.notices]
    whole = CloudError("; ".join(error.message for error in errors), notices=(*others, *of_errors))
    whole.__cause__ = errors[0]
    whole.ingress = ingress
    return whole
