"""The transform of the Service informer: keeps only used fields, with limited lengths.

Tenants can create any number of Services of up to 1.5 MiB, and the cache contains all of them. Trimmed
objects are never written back: writes are patches of our own fields (see ``syncer``), so dropped fields are
unchanged in the cluster.
"""

from collections.abc import Callable, Mapping

import msgspec

from ccm.cloud import ChoosesAnnotations, LoadBalancers
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.nodes import trim_annotations
from ccm.controllers.service.policy import MAX_PORTS, has_finalizer
from ccm.kube.objects import Service, ServicePort, ServiceSpec

MAX_FINALIZERS_LENGTH = 4096  # characters of all finalizers; above this limit, only our own finalizer is kept
MAX_TEXT_LENGTH = 256
MAX_PROTOCOL_LENGTH = 63
MAX_RANGES = 64


def service_transform(load_balancers: LoadBalancers | None) -> Callable[[Service], Service]:
    """The transform for Services before they are cached. Load balancers may choose the annotations."""
    choose = (
        load_balancers.annotations_to_keep
        if isinstance(load_balancers, ChoosesAnnotations)
        else trim_annotations
    )

    def transform(service: Service) -> Service:
        return trim_service(service, choose)

    return transform


def trim_service(service: Service, choose: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Service:
    """Trim a Service. For Services with a load balancer, ``choose`` selects the annotations to keep.

    Idempotent: a trimmed Service stays the same.
    """
    metadata, spec = service.metadata, service.spec
    finalizers = metadata.finalizers
    if sum(map(len, finalizers)) > MAX_FINALIZERS_LENGTH:
        finalizers = tuple(finalizer for finalizer in finalizers if finalizer == CLEANUP_FINALIZER)
    if spec.type == "LoadBalancer" or has_finalizer(service):
        trimmed = msgspec.structs.replace(
            spec,
            ports=tuple(_port(port) for port in spec.ports[:MAX_PORTS]),
            external_ips=spec.external_ips[:MAX_RANGES],
            load_balancer_ip=spec.load_balancer_ip[:MAX_TEXT_LENGTH],
            load_balancer_source_ranges=spec.load_balancer_source_ranges[:MAX_RANGES],
        )
        annotations = dict(choose(metadata.annotations))
    else:
        # Most Services have no load balancer, so other fields aren't used.
        trimmed = ServiceSpec(type=spec.type, load_balancer_class=spec.load_balancer_class)
        annotations = dict[str, str]()
    metadata = msgspec.structs.replace(metadata, labels={}, annotations=annotations, finalizers=finalizers)
    return msgspec.structs.replace(service, metadata=metadata, spec=trimmed)


def _port(port: ServicePort) -> ServicePort:
    if len(port.app_protocol) <= MAX_PROTOCOL_LENGTH:
        return port
    return msgspec.structs.replace(port, app_protocol=port.app_protocol[:MAX_PROTOCOL_LENGTH])
