"""The steps of a plan, and all changes of a load balancer among them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from ccm.hetzner.api.wire import (
    Algorithm,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PrivateNet,
    Protection,
    PublicAddress,
    TargetIp,
    TargetServer,
)
from ccm.hetzner.load_balancers.facts.targets import Target, target_of

Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One thing to do. Its text is for people, and tells it from all others of the same plan.

    Attributes:
        last: It waits until all before it is done and foreseen.
    """

    last: ClassVar[bool] = False


StepType_co = TypeVar("StepType_co", bound=Step, covariant=True)


@dataclass(frozen=True)
class Planned(Generic[StepType_co]):
    """A step of a plan, and the steps that it needs, by their texts."""

    step: StepType_co
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Change(Step):
    """One change of a load balancer, with its request and with what it makes of the load balancer.

    Attributes:
        operation: The action's name in the API; ``update`` is the PUT.
        unforeseen: The API decides about a part of the result, so it has to be read again afterwards.
        resets: Which setting it may bring back to its default.
    """

    operation: ClassVar[str]
    unforeseen: ClassVar[bool] = False
    resets: ClassVar[str] = ""

    def body(self) -> Json:
        """The request's body."""
        return {}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """The load balancer as it is after this change."""
        raise NotImplementedError


@dataclass(frozen=True)
class Update(Change):
    """Labels, and maybe a new name."""

    operation = "update"
    labels: Mapping[str, str]
    name: str = ""
    final: bool = False

    def __str__(self) -> str:
        if self.name:
            return f"rename to {self.name}"
        return "remove labels that are not needed any more" if self.final else "set labels"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"labels": dict(self.labels), **({"name": self.name} if self.name else {})}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        return msgspec.structs.replace(balancer, name=self.name or balancer.name, labels=dict(self.labels))


@dataclass(frozen=True)
class ChangeType(Change):
    """The type, which limits services and targets."""

    operation = "change_type"
    resets = "type"
    type: LoadBalancerType

    def __str__(self) -> str:
        return f"change type to {self.type.name}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"load_balancer_type": self.type.name}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        return msgspec.structs.replace(balancer, load_balancer_type=self.type)


@dataclass(frozen=True)
class ChangeAlgorithm(Change):
    """How a target is chosen."""

    operation = "change_algorithm"
    resets = "algorithm"
    algorithm: str

    def __str__(self) -> str:
        return f"change algorithm to {self.algorithm}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"type": self.algorithm}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        return msgspec.structs.replace(balancer, algorithm=Algorithm(self.algorithm))


@dataclass(frozen=True)
class EnablePublic(Change):
    """Answer on the public addresses."""

    operation = "enable_public_interface"
    resets = "public"

    def __str__(self) -> str:
        return "enable the public interface"

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        public = msgspec.structs.replace(balancer.public_net, enabled=True)
        return msgspec.structs.replace(balancer, public_net=public)


@dataclass(frozen=True)
class DisablePublic(Change):
    """Answer on the private address only."""

    operation = "disable_public_interface"

    def __str__(self) -> str:
        return "disable the public interface"

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        public = msgspec.structs.replace(balancer.public_net, enabled=False)
        return msgspec.structs.replace(balancer, public_net=public)


@dataclass(frozen=True)
class Attach(Change):
    """Enter a network; which address it gets is the API's choice if none is asked for."""

    operation = "attach_to_network"
    unforeseen = True
    network: int
    ip: str = ""
    ip_range: str = ""

    def __str__(self) -> str:
        place = f" as {self.ip}" if self.ip else f" in {self.ip_range}" if self.ip_range else ""
        return f"attach to network {self.network}{place}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        place = {"ip": self.ip, "ip_range": self.ip_range}
        return {"network": self.network, **{key: value for key, value in place.items() if value}}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        nets = (*balancer.private_net, PrivateNet(self.network, self.ip))
        return msgspec.structs.replace(balancer, private_net=nets)


@dataclass(frozen=True)
class Detach(Change):
    """Leave a network."""

    operation = "detach_from_network"
    unforeseen = True
    network: int

    def __str__(self) -> str:
        return f"detach from network {self.network}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"network": self.network}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        nets = tuple(net for net in balancer.private_net if net.network != self.network)
        return msgspec.structs.replace(balancer, private_net=nets)


@dataclass(frozen=True)
class AddService(Change):
    """Listen on one more port."""

    operation = "add_service"
    listener: LoadBalancerService

    def __str__(self) -> str:
        one = self.listener
        return f"listen on port {one.listen_port} ({one.protocol}) for node port {one.destination_port}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return service_body(self.listener)

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        return msgspec.structs.replace(balancer, services=(*balancer.services, self.listener))


@dataclass(frozen=True)
class UpdateService(Change):
    """Change the listener on a port."""

    operation = "update_service"
    listener: LoadBalancerService
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"change the listener on port {self.listener.listen_port} ({', '.join(self.fields)})"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return service_body(self.listener)

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        port = self.listener.listen_port
        services = tuple(self.listener if one.listen_port == port else one for one in balancer.services)
        return msgspec.structs.replace(balancer, services=services)


@dataclass(frozen=True)
class DeleteService(Change):
    """Listen on a port no more."""

    operation = "delete_service"
    port: int

    def __str__(self) -> str:
        return f"stop listening on port {self.port}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"listen_port": self.port}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        services = tuple(one for one in balancer.services if one.listen_port != self.port)
        return msgspec.structs.replace(balancer, services=services)


@dataclass(frozen=True)
class AddTarget(Change):
    """Send traffic to one more target."""

    operation = "add_target"
    target: Target

    def __str__(self) -> str:
        return f"add {self.target}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return target_body(self.target)

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        target = self.target
        if target.server:
            server = TargetServer(target.server)
            new = LoadBalancerTarget("server", server=server, use_private_ip=target.private)
        else:
            new = LoadBalancerTarget("ip", ip=TargetIp(target.ip))
        return msgspec.structs.replace(balancer, targets=(*balancer.targets, new))


@dataclass(frozen=True)
class RemoveTarget(Change):
    """Send no more traffic to a target."""

    operation = "remove_target"
    target: Target

    def __str__(self) -> str:
        return f"remove {self.target}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        body = target_body(self.target)
        body.pop("use_private_ip", None)
        return body

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        gone = self.target.identity
        kept = [one for one in balancer.targets if (at := target_of(one)) is None or at.identity != gone]
        return msgspec.structs.replace(balancer, targets=tuple(kept))


@dataclass(frozen=True)
class ChangeRdns(Change):
    """Set the reverse DNS name of an address, or reset it."""

    operation = "change_dns_ptr"
    family: str
    ip: str
    name: str | None

    @property
    def unforeseen(self) -> bool:  # type: ignore[override]
        """The API chooses a name when one is reset."""
        return self.name is None

    @property
    def resets(self) -> str:  # type: ignore[override]
        """The address family, when its name is reset."""
        return self.family if self.name is None else ""

    def __str__(self) -> str:
        return f"set the reverse DNS name of {self.ip} to {self.name or 'its default'}"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"ip": self.ip, "dns_ptr": self.name}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        address = PublicAddress(self.ip, self.name)
        public = msgspec.structs.replace(balancer.public_net, **{self.family: address})
        return msgspec.structs.replace(balancer, public_net=public)


@dataclass(frozen=True)
class ChangeProtection(Change):
    """Protect the load balancer against deletion, or not."""

    operation = "change_protection"
    resets = "protection"
    protected: bool

    def __str__(self) -> str:
        return "protect against deletion" if self.protected else "lift the protection against deletion"

    def body(self) -> Json:
        """See :meth:`Change.body`."""
        return {"delete": self.protected}

    def effect(self, balancer: LoadBalancer) -> LoadBalancer:
        """See :meth:`Change.effect`."""
        return msgspec.structs.replace(balancer, protection=Protection(self.protected))


def service_body(listener: LoadBalancerService) -> Json:
    """A listener as requests have it; only what matters for its protocol."""
    body: Json = msgspec.to_builtins(listener)
    if listener.http is None:
        del body["http"]
    elif listener.protocol == "http":
        del body["http"]["certificates"], body["http"]["redirect_http"]
    if listener.health_check.http is None:
        del body["health_check"]["http"]
    else:
        check = body["health_check"]["http"]
        body["health_check"]["http"] = {
            **check,
            "domain": check["domain"] or "",
            "response": check["response"] or "",
        }
    return body


def target_body(target: Target) -> Json:
    """A target as requests have it."""
    if target.server:
        return {"type": "server", "server": {"id": target.server}, "use_private_ip": target.private}
    return {"type": "ip", "ip": {"ip": target.ip}}
