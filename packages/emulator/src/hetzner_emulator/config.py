"""Settings of the cloud at the start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

ActionMode = Literal["instant", "realistic", "slow"]
ACTION_MODES: tuple[ActionMode, ...] = ("instant", "realistic", "slow")

LIMITS: Mapping[str, int] = {
    "servers": 5000,
    "networks": 50,
    "network_subnets": 50,
    "network_routes": 100,
    "network_members": 100,
    "load_balancers": 500,
    "primary_ips": 10_000,
    "ssh_keys": 200,
    "placement_groups": 50,
    "firewalls": 50,
    "certificates": 1000,
    "volumes": 500,
    "images": 500,
    "floating_ips": 500,
    "zones": 1000,
}
"""The quotas of a project. A quota whose name begins with ``network_`` applies to each network."""


@dataclass(frozen=True)
class CloudConfig:
    """Settings of the cloud at the start."""

    tokens: Mapping[str, str]  # project name by API token
    read_only_tokens: frozenset[str] = frozenset()  # tokens for GET requests only
    state_file: Path | None = None  # SQLite file of the state; None means memory only
    # range of the public IPv4 addresses
    public_ipv4: IPv4Network = field(default_factory=lambda: IPv4Network("203.0.113.0/24"))
    reserved_ipv4: int = 4  # number of unused addresses at the start of that range
    # range of the /64 networks
    public_ipv6: IPv6Network = field(default_factory=lambda: IPv6Network("2001:db8::/32"))
    # `instant` (as fast as the backend), `realistic` (seconds) or `slow` (tens of seconds)
    actions: ActionMode = "instant"
    rate_limit: int = 3600  # requests an hour and project; 0 disables the limit
    limits: Mapping[str, int] = field(default_factory=dict)  # quotas that differ from LIMITS
    sold_out: frozenset[tuple[str, str]] = frozenset()  # pairs of server type and location without capacity
    # duration of the issuance of a certificate; None follows `actions`
    certificate_seconds: float | None = None
    request_log: int = 50_000  # maximum number of requests in the log
