"""How clients reach a load balancer, as a Service's status has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ingress:
    """One entry of a Service's status.

    Attributes:
        ip: An address, or empty.
        hostname: A name, or empty.
        ip_mode: ``VIP`` or ``Proxy`` for an address, where empty is ``VIP``; empty for a name.
    """

    ip: str = ""
    hostname: str = ""
    ip_mode: str = ""
