"""Operations on the catalogs, ``GET /pricing``, and ``GET /datacenters``."""

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import VAT, money, price
from hetzner_emulator.api.offer import EVERYWHERE, FLOATING_IP, IPV4, SNAPSHOT_GB, VOLUME_GB
from hetzner_emulator.api.registry import operation
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.catalogs import (
    ISOS,
    LOAD_BALANCER_TYPES,
    LOCATION_CATALOG,
    SERVER_TYPES,
    load_balancer_type_prices,
    server_type_prices,
)
from hetzner_emulator.wire.reply import Reply

_ANNOUNCEMENT = "https://docs.hetzner.cloud/changelog#2025-12-16-phasing-out-datacenters"

for _catalog in (LOCATION_CATALOG, SERVER_TYPES, LOAD_BALANCER_TYPES, ISOS):
    _catalog.register()


@operation("GET", "/datacenters")
@operation("GET", "/datacenters/{id}")
async def _datacenters(_call: Call) -> Reply:
    """Hetzner removed it from the API in October 2026."""
    raise ApiError(
        "deprecated_api_endpoint", "API functionality was removed", {"announcement": _ANNOUNCEMENT}
    )


@operation("GET", "/pricing")
async def _pricing(_call: Call) -> Reply:
    body = {
        "currency": "EUR",
        "vat_rate": f"{(VAT - 1) * 100:.2f}",
        "image": {"price_per_gb_month": money(SNAPSHOT_GB)},
        "volume": {"price_per_gb_month": money(VOLUME_GB)},
        "server_backup": {"percentage": "20.00"},
        "floating_ip": {"price_monthly": money(FLOATING_IP["ipv4"])},
        "floating_ips": [_addresses(kind, euros, hourly=False) for kind, euros in FLOATING_IP.items()],
        "primary_ips": [_addresses("ipv4", IPV4, hourly=True), _addresses("ipv6", 0.0, hourly=True)],
        "server_types": [
            {"id": kind.id, "name": kind.name, "prices": server_type_prices(kind)}
            for kind in SERVER_TYPES.entries
            if kind.deprecation is None
        ],
        "load_balancer_types": [
            {"id": kind.id, "name": kind.name, "prices": load_balancer_type_prices(kind)}
            for kind in LOAD_BALANCER_TYPES.entries
        ],
    }
    return Reply(200, {"pricing": body})


def _addresses(kind: str, monthly: float, *, hourly: bool) -> dict[str, object]:
    kept = ("price_hourly", "price_monthly") if hourly else ("price_monthly",)
    prices = [{"location": name, **{key: price(monthly)[key] for key in kept}} for name in EVERYWHERE]
    return {"type": kind, "prices": prices}
