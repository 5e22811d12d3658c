"""Services that want load balancers."""

from collections.abc import Mapping
from typing import Any

from ccm.cloud import ServicePort, ServiceView
from ccm.hetzner.load_balancers.service_annotations import PREFIX

UID = "11111111-2222-3333-4444-555555555555"


def view(
    name: str = "web",
    *ports: ServicePort | tuple[int, int] | int,
    uid: str = UID,
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> ServiceView:
    """A Service; annotations without their prefix."""
    chosen = [_port(port) for port in ports or (80,)]
    prefixed = {PREFIX + key: value for key, value in (annotations or {}).items()}
    return ServiceView("shop", name, uid, prefixed, tuple(chosen), **more)


def _port(port: ServicePort | tuple[int, int] | int) -> ServicePort:
    if isinstance(port, ServicePort):
        return port
    return ServicePort(port, 30000 + port % 2768) if isinstance(port, int) else ServicePort(*port)
