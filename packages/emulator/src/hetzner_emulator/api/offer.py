"""What Hetzner offers, as data. To update the emulated cloud's offer, change this file.

As of November 2026, from these sources; where one is missing, a comment says so:

- ids, sizes and locations of server types: output of ``hcloud server-type list``, mid-2026, published by a
  user; ``cpx12`` in Europe: the default type of the acceptance tests of Terraform's provider, August 2026
- prices in euros a month, without VAT and without an IPv4 address: hetzner.com as of 2026-09-03, in force
  since 2026-06-15, checked against a list of 2026-07-15; an hour is a 624th (ccx63: 853.49 and 1.3678)
- categories: ``GET /server_types``, read by a user on 2026-09-05
- descriptions ``CPX 11`` and ``CPX 21``, deprecation of ``cx11``: tests of Terraform's provider and of the
  collection hetzner.hcloud, 2026; other deprecations: https://docs.hetzner.cloud/changelog#2025-10-16
- image ``ubuntu-26.04``: programs of users; its ids are ours. ``debian-11``: announcement of 2026-08-31
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

EUROPE = ("fsn1", "nbg1", "hel1")
AMERICA = ("ash", "hil")
ASIA = ("sin",)
EVERYWHERE = (*EUROPE, *AMERICA, *ASIA)

HOURS_OF_A_MONTH = 624
"""If you use a resource for more hours than this in one month, the monthly price applies."""

TERABYTE_OF_TRAFFIC = {**dict.fromkeys((*EUROPE, *AMERICA), 1.0), "sin": 7.4}
IPV4 = 0.5
SNAPSHOT_GB = 0.0143
VOLUME_GB = 0.0572
FLOATING_IP = {"ipv4": 3.0, "ipv6": 1.0}
"""Hetzner's prices before April 2026. We found no source for newer prices."""

COST_OPTIMIZED = "cost_optimized"
REGULAR = "regular_purpose"
DEDICATED = "general_purpose"


@dataclass(frozen=True)
class Deprecation:
    """When the end of an offer was announced, and from when on the offer is unavailable."""

    announced: str
    unavailable_after: str


@dataclass(frozen=True)
class ServerType:
    """A size of servers."""

    id: int
    name: str
    cores: int
    memory: float  # in GB
    disk: int  # in GB
    monthly: float  # price in euros without tax, in most of its locations
    category: str
    locations: tuple[str, ...]
    architecture: Literal["x86", "arm"] = "x86"
    # price by location where it is another one
    elsewhere: Mapping[str, float] = field(default_factory=dict, hash=False)
    # None where it is not deprecated. What was taken away is not listed, but has its id.
    deprecation: Deprecation | None = None

    @property
    def dedicated(self) -> bool:
        """Whether the cores are dedicated."""
        return self.category == DEDICATED

    @property
    def description(self) -> str:
        """For people."""
        return self.name.upper().replace("CPX", "CPX " if self.locations == AMERICA else "CPX")

    def price(self, location: str) -> float:
        """Euros a month without tax."""
        return self.elsewhere.get(location, self.monthly)


_CX1 = Deprecation("2024-06-06T08:00:00Z", "2024-09-06T08:00:00Z")
_CX2 = Deprecation("2025-10-16T08:00:00Z", "2025-12-31T08:00:00Z")  # the hours are those of the line above
_NEW = (*EUROPE, *ASIA)  # prices in Singapore are known of cpx12 and cpx22, and of ccx13

SERVER_TYPES = (
    ServerType(1, "cx11", 1, 2, 20, 3.29, COST_OPTIMIZED, EUROPE, deprecation=_CX1),
    ServerType(22, "cpx11", 2, 2, 40, 17.49, REGULAR, AMERICA),
    ServerType(23, "cpx21", 3, 4, 80, 31.99, REGULAR, AMERICA),
    ServerType(24, "cpx31", 4, 8, 160, 62.49, REGULAR, AMERICA),
    ServerType(25, "cpx41", 8, 16, 240, 120.49, REGULAR, AMERICA),
    ServerType(26, "cpx51", 16, 32, 360, 237.99, REGULAR, AMERICA),
    ServerType(45, "cax11", 2, 4, 40, 5.99, COST_OPTIMIZED, EUROPE, "arm"),
    ServerType(93, "cax21", 4, 8, 80, 10.49, COST_OPTIMIZED, EUROPE, "arm"),
    ServerType(94, "cax31", 8, 16, 160, 20.99, COST_OPTIMIZED, EUROPE, "arm"),
    ServerType(95, "cax41", 16, 32, 320, 40.99, COST_OPTIMIZED, EUROPE, "arm"),
    ServerType(96, "ccx13", 2, 8, 80, 42.99, DEDICATED, EVERYWHERE, elsewhere={"sin": 53.99}),
    ServerType(97, "ccx23", 4, 16, 160, 85.99, DEDICATED, EVERYWHERE),
    ServerType(98, "ccx33", 8, 32, 240, 138.49, DEDICATED, EVERYWHERE),
    ServerType(99, "ccx43", 16, 64, 360, 275.99, DEDICATED, EVERYWHERE),
    ServerType(100, "ccx53", 32, 128, 600, 533.49, DEDICATED, EVERYWHERE),
    ServerType(101, "ccx63", 48, 192, 960, 853.49, DEDICATED, EVERYWHERE),
    ServerType(104, "cx22", 2, 4, 40, 3.29, COST_OPTIMIZED, EUROPE, deprecation=_CX2),
    ServerType(105, "cx32", 4, 8, 80, 5.83, COST_OPTIMIZED, EUROPE, deprecation=_CX2),
    ServerType(106, "cx42", 8, 16, 160, 14.20, COST_OPTIMIZED, EUROPE, deprecation=_CX2),
    ServerType(107, "cx52", 16, 32, 320, 28.00, COST_OPTIMIZED, EUROPE, deprecation=_CX2),
    ServerType(108, "cpx12", 1, 2, 40, 11.49, REGULAR, _NEW, elsewhere={"sin": 15.49}),
    ServerType(109, "cpx22", 2, 4, 80, 19.49, REGULAR, _NEW, elsewhere={"sin": 26.49}),
    ServerType(110, "cpx32", 4, 8, 160, 35.49, REGULAR, _NEW),
    ServerType(111, "cpx42", 8, 16, 320, 69.49, REGULAR, _NEW),
    ServerType(112, "cpx52", 12, 24, 480, 100.49, REGULAR, _NEW),
    ServerType(113, "cpx62", 16, 32, 640, 129.99, REGULAR, _NEW),
    ServerType(114, "cx23", 2, 4, 40, 5.49, COST_OPTIMIZED, EUROPE),
    ServerType(115, "cx33", 4, 8, 80, 8.49, COST_OPTIMIZED, EUROPE),
    ServerType(116, "cx43", 8, 16, 160, 15.99, COST_OPTIMIZED, EUROPE),
    ServerType(117, "cx53", 16, 32, 320, 29.49, COST_OPTIMIZED, EUROPE),
)

SOLD_OUT: Mapping[str, frozenset[tuple[str, str]]] = {
    "2026-09": frozenset(
        (kind.name, location)
        for kind in SERVER_TYPES
        for location in kind.locations
        if kind.category == COST_OPTIMIZED and kind.deprecation is None
    )
}
"""Maps a month to the pairs of a server type and a location in which the type is sold out. On 2026-09-03,
hetzner.com listed all cx and cax types as "not available". Two days later, cx23 was available in nbg1 and
hel1."""


@dataclass(frozen=True)
class LoadBalancerType:
    """A size of load balancers; ``monthly`` in euros without tax."""

    id: int
    name: str
    max_services: int
    max_targets: int
    max_assigned_certificates: int
    max_connections: int
    monthly: float


LOAD_BALANCER_TYPES = (
    LoadBalancerType(1, "lb11", 5, 25, 10, 10_000, 7.49),
    # Prices before April 2026; there are no sources for later ones.
    LoadBalancerType(2, "lb21", 15, 75, 25, 20_000, 14.99),
    LoadBalancerType(3, "lb31", 30, 150, 50, 40_000, 29.99),
)


@dataclass(frozen=True)
class Image:
    """One system image; every machine of the sandbox boots the same Debian, whatever its image is called."""

    id: int
    flavor: str
    version: str
    architecture: str = "x86"
    deprecation: Deprecation | None = None
    created: float = 1714051587.0
    disk_size: int = 5

    @property
    def name(self) -> str:
        """For example ``debian-12``."""
        return f"{self.flavor}-{self.version}"


SYSTEM_IMAGES = (
    Image(45557056, "debian", "11", deprecation=Deprecation("2026-08-31T00:00:00Z", "2026-11-30T00:00:00Z")),
    Image(67794396, "ubuntu", "22.04"),
    Image(103908130, "ubuntu", "22.04", "arm"),
    Image(114690387, "debian", "12"),
    Image(114690389, "debian", "12", "arm"),
    Image(161547269, "ubuntu", "24.04"),
    Image(161547270, "ubuntu", "24.04", "arm"),
    Image(186371830, "rocky", "9"),
    Image(186371832, "alma", "9"),
    Image(232895454, "fedora", "41"),
    Image(310557660, "debian", "13"),
    Image(310557661, "debian", "13", "arm"),
    Image(400000001, "ubuntu", "26.04"),
    Image(400000002, "ubuntu", "26.04", "arm"),
)
