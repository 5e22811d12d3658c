"""The fields of Kubernetes' objects that we use, as frozen structs.

The names are those of Kubernetes in snake_case. Every field has a default, so objects without the field can
be decoded. Other fields are dropped, so 5,000 Nodes need little memory. We never write such an object back:
writes are patches, or whole objects of our own (Lease, Event).

As in Kubernetes, ``null`` means absent. ``decode`` removes nulls only if the normal decoding fails.
"""

from datetime import datetime
from typing import Any, TypeVar, cast, get_origin

import msgspec

from ccm.kube.nesting import shallow

_ACRONYMS = {
    "provider_id": "providerID",
    "pod_cidr": "podCIDR",
    "pod_cidrs": "podCIDRs",
    "external_ips": "externalIPs",
    "load_balancer_ip": "loadBalancerIP",
    "continue_": "continue",
}


def wire_name(name: str) -> str:
    """The JSON name of a field: camelCase with Kubernetes' capital acronyms."""
    head, *rest = name.split("_")
    return _ACRONYMS.get(name) or head + "".join(word.capitalize() for word in rest)


class Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename=wire_name):
    """Base of all structs: immutable, not tracked by the garbage collector, encoded without empty fields."""


class ObjectMeta(Part, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None

    @property
    def key(self) -> str:
        """``name``, or ``namespace/name`` for a namespaced object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PartialObject(Part, frozen=True):
    """Base of all objects. An instance of this class is an object without its other fields."""

    metadata: ObjectMeta = ObjectMeta()


class Taint(Part, frozen=True):
    """A taint of a Node, with all its fields, because a patch writes all taints of a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class NodeAddress(Part, frozen=True):
    """One address of a Node; type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS."""

    type: str = ""
    address: str = ""


class Condition(Part, frozen=True):
    """One condition of a node; status is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeSpec(Part, frozen=True):
    """The spec of a Node."""

    provider_id: str = ""
    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()


class NodeStatus(Part, frozen=True):
    """The status of a Node."""

    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Node(PartialObject, frozen=True):
    """A member of the cluster."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ServicePort(Part, frozen=True):
    """One port of a Service with all its fields, to detect any change. ``target_port`` may be a name."""

    name: str = ""
    protocol: str = "TCP"
    app_protocol: str = ""
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(Part, frozen=True):
    """The spec of a Service."""

    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] = ()
    external_ips: tuple[str, ...] = ()
    ip_families: tuple[str, ...] = ()
    load_balancer_ip: str = ""
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    session_affinity: str = ""
    session_affinity_config: dict[str, Any] = {}


class PortStatus(Part, frozen=True):
    """State of one port of a load balancer's ingress point."""

    port: int = 0
    protocol: str = ""
    error: str | None = None


class LoadBalancerIngress(Part, frozen=True):
    """One address at which a load balancer is reached."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Part, frozen=True):
    """The addresses of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Part, frozen=True):
    """The status of a Service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(PartialObject, frozen=True):
    """A name for a group of Pods."""

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class LeaseSpec(Part, frozen=True):
    """The spec of a Lease; times are strings, because clocks of other machines can't be compared."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class ObjectReference(Part, frozen=True):
    """Names one object, for events."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Part, frozen=True):
    """Which component reports an event."""

    component: str = ""
    host: str = ""


class Event(PartialObject, frozen=True):
    """Something that happened to an object, for people. The type is Normal or Warning."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str = ""
    last_timestamp: str = ""
    count: int = 0
    type: str = ""
    reporting_component: str = ""


class ConfigMap(PartialObject, frozen=True):
    """Configuration as text."""

    data: dict[str, str] = {}


T = TypeVar("T")
_KINDS: dict[type, tuple[str, str]] = {
    Node: ("v1", "Node"),
    Service: ("v1", "Service"),
    ConfigMap: ("v1", "ConfigMap"),
    Event: ("v1", "Event"),
}
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def reference_to(item: PartialObject) -> ObjectReference:
    """The reference to this object in an Event."""
    api_version, kind = _KINDS[type(item)]
    metadata = item.metadata
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def to_wire(item: object) -> dict[str, Any]:
    """The JSON object for a struct, with apiVersion and kind if the struct is an object."""
    body = cast("dict[str, Any]", msgspec.to_builtins(item))
    if type(item) in _KINDS:
        body["apiVersion"], body["kind"] = _KINDS[type(item)]
    return body


def decode(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode an object from JSON; raises msgspec.DecodeError for invalid JSON or wrong types of fields.

    ``kind`` is a struct of this module or any type that msgspec supports. If the JSON is nested too deeply,
    the result omits the deepest levels. If ``kind`` is ``dict[str, Any]``, invalid UTF-8 is replaced.
    """
    # msgspec raises Python's errors for invalid UTF-8 and for deep nesting.
    try:
        try:
            return _decode(data, kind)
        except (UnicodeDecodeError, RecursionError):
            text = shallow(bytes(data))
            if get_origin(kind) is dict:
                # This includes metadata.managedFields, where the API server stores invalid bytes.
                text = text.decode(errors="replace").encode()
            return _decode(text, kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def _decode(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        # Kubernetes treats null as absent. Only the rare objects with null need this slow path.
        return msgspec.convert(_without_nulls(msgspec.json.decode(data)), kind)


def decode_object(value: dict[str, Any], kind: type[T]) -> T:
    """One object from its JSON form. Raises msgspec.ValidationError."""
    return msgspec.convert(_without_nulls(value), kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _without_nulls(item) for key, item in items if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value) if item is not None]
    return value
