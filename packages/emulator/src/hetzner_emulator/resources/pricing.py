"""Prices of everything."""

from __future__ import annotations

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import VAT, money, price
from hetzner_emulator.api.offer import EVERYWHERE, FLOATING_IP, IPV4, SNAPSHOT_GB, VOLUME_GB
from hetzner_emulator.api.registry import operation
from hetzner_emulator.models import load_balancer_types, server_types
from hetzner_emulator.wire.reply import Reply


@operation("GET", "/pricing")
async def pricing(_call: Call) -> Reply:
    """All prices."""
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
            {"id": t.id, "name": t.name, "prices": server_types.prices_of(t)}
            for t in server_types.SERVER_TYPES.entries
            if t.deprecation is None
        ],
        "load_balancer_types": [
            {"id": t.id, "name": t.name, "prices": load_balancer_types.prices_of(t)}
            for t in load_balancer_types.LOAD_BALANCER_TYPES.entries
        ],
    }
    return Reply(200, {"pricing": body})


def _addresses(kind: str, monthly: float, *, hourly: bool) -> dict[str, object]:
    kept = ("price_hourly", "price_monthly") if hourly else ("price_monthly",)
    prices = [{"location": name, **{key: price(monthly)[key] for key in kept}} for name in EVERYWHERE]
    return {"type": kind, "prices": prices}
