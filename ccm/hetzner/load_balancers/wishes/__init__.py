"""What a Service asks for: its annotations, read by one table of keys, and the environment's defaults."""

from ccm.hetzner.load_balancers.wishes.readings import Reading, spelling
from ccm.hetzner.load_balancers.wishes.table import (
    BY_NAME,
    PORT_KEYS,
    SETTINGS,
    CertificateWishes,
    CheckWishes,
    PortWishes,
    Setting,
)
from ccm.hetzner.load_balancers.wishes.wishes import PRIMARY_IP_KEY, Wishes, read

__all__ = [
    "BY_NAME",
    "PORT_KEYS",
    "PRIMARY_IP_KEY",
    "SETTINGS",
    "CertificateWishes",
    "CheckWishes",
    "PortWishes",
    "Reading",
    "Setting",
    "Wishes",
    "read",
    "spelling",
]
