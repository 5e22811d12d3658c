"""What the steps of a plan are. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.targets import Target

Json = dict[str, Any]
ENABLE_PUBLIC = "enable the public interface"
_NO_TARGET = Target()


@dataclass(frozen=True)
class Step:
    """One thing to do. Its text is for people, and tells it from all others of the same plan.

    Attributes:
        last: It waits until all before it is done and foreseen.
        needs: The steps without which it makes no sense, by their texts.
    """

    last: ClassVar[bool] = False
    needs: frozenset[str] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class Change(Step):
    """One change of a load balancer: its request, and what it makes of the load balancer.

    Attributes:
        operation: The action's name in the API; ``update`` is the PUT.
        text: What it does, for people.
        body: The request's body.
        effect: The load balancer as it is after this change, from what it was before.
        unforeseen: The API decides about a part of the result, so it has to be read again afterwards.
        resets: Which setting it may bring back to its default.
        target: What is added or removed, if it is a target.
        otherwise: What is done if it fails, so that nothing is lost by what came before it.
    """

    operation: str
    text: str
    body: Json
    effect: Callable[[LoadBalancer], LoadBalancer]
    unforeseen: bool = False
    resets: str = ""
    target: Target = _NO_TARGET
    otherwise: Change | None = None

    def __str__(self) -> str:
        return self.text
