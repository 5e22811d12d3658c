"""Prices of everything."""

from __future__ import annotations

from sandbox.cloud.api.call import Call
from sandbox.cloud.api.catalog import EVERYWHERE, VAT, money, price, traffic_prices
from sandbox.cloud.api.registry import operation
from sandbox.cloud.resources.load_balancer_types import LOAD_BALANCER_TYPES
from sandbox.cloud.resources.server_types import SERVER_TYPES
from sandbox.cloud.wire.reply import Reply


@operation("GET", "/pricing")
async def pricing(_call: Call) -> Reply:
    """All prices; approximate ones, as of 2026."""
    body = {
        "currency": "EUR",
        "vat_rate": f"{(VAT - 1) * 100:.2f}",
        "image": {"price_per_gb_month": money(0.011)},
        "volume": {"price_per_gb_month": money(0.044)},
        "server_backup": {"percentage": "20.00"},
        "floating_ip": {"price_monthly": money(3.0)},
        "floating_ips": [_addresses("ipv4", 3.0, hourly=False), _addresses("ipv6", 1.0, hourly=False)],
        "primary_ips": [_addresses("ipv4", 0.5, hourly=True), _addresses("ipv6", 0.0, hourly=True)],
        "server_types": [
            {"id": t.id, "name": t.name, "prices": traffic_prices(t.monthly, t.locations, 20)}
            for t in SERVER_TYPES.entries
        ],
        "load_balancer_types": [
            {"id": t.id, "name": t.name, "prices": traffic_prices(t.monthly, EVERYWHERE, 20)}
            for t in LOAD_BALANCER_TYPES.entries
        ],
    }
    return Reply(200, {"pricing": body})


def _addresses(kind: str, monthly: float, *, hourly: bool) -> dict[str, object]:
    kept = ("price_hourly", "price_monthly") if hourly else ("price_monthly",)
    prices = [{"location": name, **{key: price(monthly)[key] for key in kept}} for name in EVERYWHERE]
    return {"type": kind, "prices": prices}
