"""The spec of a Service: its annotations, parsed with one table of keys, and defaults of the environment."""

from ccm.hetzner.load_balancers.spec.annotation_table import (
    BY_NAME,
    PORT_KEYS,
    SETTINGS,
    CertificateSpec,
    HealthCheckSpec,
    PortSpec,
    Setting,
)
from ccm.hetzner.load_balancers.spec.load_balancer_spec import PRIMARY_IP_KEY, LoadBalancerSpec, read
from ccm.hetzner.load_balancers.spec.official_format import OfficialFormat, official_spelling

__all__ = [
    "BY_NAME",
    "PORT_KEYS",
    "PRIMARY_IP_KEY",
    "SETTINGS",
    "CertificateSpec",
    "HealthCheckSpec",
    "LoadBalancerSpec",
    "OfficialFormat",
    "PortSpec",
    "Setting",
    "official_spelling",
    "read",
]
