"""Resources that clients can only read: locations, types of servers and load balancers, ISOs, and images."""

import functools
from dataclasses import dataclass
from typing import Any

from hetzner_emulator.api import offer
from hetzner_emulator.api.catalog import LOCATIONS, Catalog, deprecation_wire, traffic_prices
from hetzner_emulator.api.offer import EVERYWHERE, Image, LoadBalancerType, ServerType
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import timestamp

SoldOut = frozenset[tuple[str, str]]


def server_type_wire(cloud: Cloud, server_type: ServerType) -> dict[str, Any]:
    """The server type as the API shows it; responses share it, so don't change it."""
    return _server_type_wire(server_type, cloud.sold_out)


@functools.lru_cache(maxsize=256)
def _server_type_wire(server_type: ServerType, sold_out: SoldOut) -> dict[str, Any]:
    deprecation = deprecation_wire(server_type.deprecation)
    names = ("id", "name", "description", "category", "cores", "memory", "disk")
    return {
        **{name: getattr(server_type, name) for name in names},
        "deprecation": deprecation,
        "prices": server_type_prices(server_type),
        "storage_type": "local",
        "cpu_type": "dedicated" if server_type.dedicated else "shared",
        "architecture": server_type.architecture,
        "locations": [
            {
                "id": LOCATIONS[name].id,
                "name": name,
                "deprecation": deprecation,
                "recommended": deprecation is None,
                "available": _is_available(server_type, name, sold_out),
            }
            for name in server_type.locations
        ],
    }


def server_type_prices(server_type: ServerType) -> list[dict[str, Any]]:
    """Prices by location, as the API shows them."""
    return traffic_prices({name: server_type.price(name) for name in server_type.locations})


def is_available(cloud: Cloud, server_type: ServerType, location: str) -> bool:
    """Whether the location has capacity for such a server now."""
    return _is_available(server_type, location, cloud.sold_out)


def _is_available(server_type: ServerType, location: str, sold_out: SoldOut) -> bool:
    offered = server_type.deprecation is None and location in server_type.locations
    return offered and (server_type.name, location) not in sold_out


def load_balancer_type_wire(kind: LoadBalancerType) -> dict[str, Any]:
    """The type as the API shows it."""
    values = {key: value for key, value in vars(kind).items() if key != "monthly"}
    prices = load_balancer_type_prices(kind)
    return {**values, "description": kind.name.upper(), "deprecation": None, "prices": prices}


def load_balancer_type_prices(kind: LoadBalancerType) -> list[dict[str, Any]]:
    """Prices by location, as the API shows them."""
    return traffic_prices(dict.fromkeys(EVERYWHERE, kind.monthly))


@dataclass(frozen=True)
class Iso:
    """A public ISO image."""

    id: int
    name: str
    description: str
    architecture: str = "x86"

    def wire(self) -> dict[str, Any]:
        """The ISO as the API shows it."""
        return {**vars(self), "type": "public", "deprecation": None}


_WINDOWS = "SW_DVD9_Win_Server_STD_CORE_2022__64Bit"
_ISOS = (
    Iso(8637, f"{_WINDOWS}_English_DC_STD_MLF_X22-74290.iso", "Windows Server 2022 English"),
    Iso(8638, f"{_WINDOWS}_German_DC_STD_MLF_X22-74292.iso", "Windows Server 2022 German"),
    Iso(26366, "virtio-win-0.1.271.iso", "virtio 0.1.271"),
    Iso(26367, "debian-12.11.0-amd64-netinst.iso", "Debian 12.11 (amd64/netinstall)"),
    Iso(26368, "debian-12.11.0-arm64-netinst.iso", "Debian 12.11 (arm64/netinstall)", "arm"),
)


@functools.cache
def system_image_wire(image: Image) -> dict[str, Any]:
    """The image as the API shows it; responses share it, so don't change it."""
    return {
        "id": image.id,
        "type": "system",
        "status": "available",
        "name": image.name,
        "description": f"{image.flavor.capitalize()} {image.version}",
        "image_size": None,
        "disk_size": image.disk_size,
        "created": timestamp(image.created),
        "created_from": None,
        "bound_to": None,
        "os_flavor": image.flavor,
        "os_version": image.version,
        "rapid_deploy": True,
        "protection": {"delete": False},
        "deprecation": deprecation_wire(image.deprecation),
        "deleted": None,
        "labels": {},
        "architecture": image.architecture,
    }


LOCATION_CATALOG = Catalog(
    "locations", "location", tuple(LOCATIONS.values()), lambda _call, entry: entry.wire(), ("id", "name")
)
SERVER_TYPES = Catalog(
    "server_types",
    "server_type",
    offer.SERVER_TYPES,
    lambda call, entry: server_type_wire(call.cloud, entry),
    listed=lambda server_type: server_type.deprecation is None,
)
LOAD_BALANCER_TYPES = Catalog(
    "load_balancer_types",
    "load_balancer_type",
    offer.LOAD_BALANCER_TYPES,
    lambda _call, entry: load_balancer_type_wire(entry),
)
ISOS = Catalog(
    "isos",
    "iso",
    _ISOS,
    lambda _call, entry: entry.wire(),
    filters={"architecture": lambda iso: iso.architecture},
)
