"""The steps of a plan: changes of a load balancer, and steps that create or delete it or its certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.spec import SETTINGS, CertificateSpec
from ccm.hetzner.load_balancers.targets import Target
from ccm.hetzner.load_balancers.truncation import enumerated

Json = dict[str, Any]
# The operation of a step and its object; unique in a plan.
Key = tuple[str, int | str | Target]
ENABLE_PUBLIC: Key = ("enable_public_interface", "public")


@dataclass(frozen=True)
class Step:
    """One step of a plan. ``str`` returns a description."""

    last: ClassVar[bool] = False  # runs only after all earlier steps succeeded
    # keys of the steps that must succeed first
    needs: frozenset[Key] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class Change(Step):
    """One change of a load balancer: its request, and its effect."""

    operation: str  # the action's name in the API; `update` is the PUT
    # the changed object: a port, a target, a network, an address, or the name of a setting
    about: int | str | Target
    text: str  # a description
    body: Json  # the request's body
    # returns the load balancer after this change
    effect: Callable[[LoadBalancer], LoadBalancer]
    # the API chooses a part of the result, so the load balancer must be read again
    unforeseen: bool = False
    resets: str = ""  # the setting that the step may reset to its default
    # runs after a failure, to undo earlier changes
    otherwise: Change | None = None

    @property
    def key(self) -> Key:
        """Identifies the change in its plan."""
        return self.operation, self.about

    def __str__(self) -> str:
        return self.text


def keys_of(steps: Iterable[Change]) -> frozenset[Key]:
    """The keys of several changes."""
    return frozenset(step.key for step in steps)


NOTHING = LoadBalancer(0, "")  # the load balancer before its creation


@dataclass(frozen=True)
class RequestCertificate(Step):
    """Request a managed certificate. The API chooses its ID, so dependent changes are planned again."""

    asked: CertificateSpec

    def __str__(self) -> str:
        return f"request a managed certificate for {enumerated(self.asked.domains)}"


@dataclass(frozen=True)
class RetryCertificate(Step):
    """Request a failed certificate again, because the user may have fixed the problem."""

    certificate: Certificate

    def __str__(self) -> str:
        return f"request managed certificate {self.certificate.name} ({self.certificate.id}) again"


@dataclass(frozen=True)
class Create(Step):
    """Create the load balancer. The next plan compares the API's choices with the desired state."""

    desired: DesiredState  # the desired state
    # Bodies of requests. The first accepted request creates the load balancer. Later bodies omit parts, which
    # are then added one by one, to find the refused part. Certificates that aren't requested yet have
    # placeholder numbers, as in `desired`.
    bodies: tuple[Json, ...]

    def __str__(self) -> str:
        desired = self.desired
        kind = desired.type.name if desired.type else ""
        ports = ", ".join(str(listener.listen_port) for listener in desired.listeners) or "none"
        targets = len(desired.targets or ())
        on = ", ".join(
            f"{primary_ip.ip} (Primary IP {primary_ip.id})" for primary_ip in desired.primary_ips.values()
        )
        text = (
            f"create load balancer {desired.name} ({kind}) {desired.site}, ports: {ports}, targets: {targets}"
        )
        return f"{text}, on {on}" if on else text


@dataclass(frozen=True)
class DeleteCertificates(Step):
    """Delete unused managed certificates that were requested for the Service."""

    last = True
    known: tuple[Certificate, ...] = ()  # certainly unused; the step may find others
    used: frozenset[int] = frozenset()  # IDs of certificates to keep

    def __str__(self) -> str:
        names = enumerated([f"{certificate.name} ({certificate.id})" for certificate in self.known])
        return f"delete managed certificate {names}".rstrip()


@dataclass(frozen=True)
class Release(Step):
    """Removes a Service from a load balancer. When the step runs, it deletes an unused load balancer."""

    last = True
    balancer: LoadBalancer  # the current load balancer

    def __str__(self) -> str:
        return f"leave load balancer {self.balancer.name} ({self.balancer.id})"


def create(desired: DesiredState, parts: Sequence[Change]) -> Create:
    """The step that creates a load balancer as ``desired``; ``parts``: the changes from :data:`NOTHING`."""
    body = creation_body(desired, parts)
    bodies = [body]
    if desired.targets:
        bodies.append({key: value for key, value in body.items() if key != "targets"})
    if desired.listeners:
        bodies.append({key: value for key, value in body.items() if key not in {"targets", "services"}})
    return Create(desired, tuple(bodies))


def creation_body(desired: DesiredState, parts: Sequence[Change]) -> Json:
    """The body of the request for a new load balancer, with all possible parts. The type must be known."""
    # Only the action to attach to a network can request an address or a range.
    network = desired.network if not (desired.private_ip or desired.ip_range) else None
    inline = [
        part.body
        for part in parts
        if part.operation == "add_target"
        and isinstance(part.about, Target)
        and (network is not None if part.about.private or part.about.ip else desired.public is not False)
    ]
    body: Json = {
        "name": desired.name,
        "load_balancer_type": desired.type.name if desired.type else "",
        "labels": dict(desired.labels),
        "public_interface": desired.public is not False,
        # In every request, so that the load balancer never gets other addresses.
        "public_net": {family: primary_ip.id for family, primary_ip in desired.primary_ips.items()} or None,
        "services": [part.body for part in parts if part.operation == "add_service"],
        "targets": inline,
        "location": desired.site.location,
        "network_zone": desired.site.network_zone,
        "network": network,
    }
    for name, value in desired.settings.items():
        if SETTINGS[name].created:
            body |= SETTINGS[name].creation_body(value)
    return {key: value for key, value in body.items() if value not in ("", None, [])}
