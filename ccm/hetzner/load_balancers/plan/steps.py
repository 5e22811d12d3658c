"""What the steps of a plan are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.targets import Target

Json = dict[str, Any]
# What a step does and to what: tells it from all others of the same plan.
Key = tuple[str, int | str | Target]
ENABLE_PUBLIC: Key = ("enable_public_interface", "public")


@dataclass(frozen=True)
class Step:
    """One thing to do. Its text is for people.

    Attributes:
        last: It waits until all before it is done and foreseen.
        needs: The steps without which it makes no sense, by their keys.
    """

    last: ClassVar[bool] = False
    needs: frozenset[Key] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class Change(Step):
    """One change of a load balancer: its request, and what it makes of the load balancer.

    Attributes:
        operation: The action's name in the API; ``update`` is the PUT.
        about: What it changes: a port, a target, a network, an address, or the name of a setting.
        text: What it does, for people.
        body: The request's body.
        effect: The load balancer as it is after this change, from what it was before.
        unforeseen: The API decides about a part of the result, so it has to be read again afterwards.
        resets: Which setting it may bring back to its default.
        otherwise: What is done if it fails, so that nothing is lost by what came before it.
    """

    operation: str
    about: int | str | Target
    text: str
    body: Json
    effect: Callable[[LoadBalancer], LoadBalancer]
    unforeseen: bool = False
    resets: str = ""
    otherwise: Change | None = None

    @property
    def key(self) -> Key:
        """What tells it from the other changes of the same plan."""
        return self.operation, self.about

    def __str__(self) -> str:
        return self.text


def keys_of(steps: Iterable[Change]) -> frozenset[Key]:
    """The keys of several changes."""
    return frozenset(one.key for one in steps)
