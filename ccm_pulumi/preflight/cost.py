"""The cost of an environment, by the prices of the cloud's API. Amounts are never floats.

The price of a month is its maximum: Hetzner bills a server that is deleted earlier by the hour. Traffic
beyond the included volume is not part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, NamedTuple

from ..config.placement import Placement
from ..config.pools import Pool

SERVER = "server"
BALANCER = "load balancer"
ADDRESS = "primary IP"
IPV4 = "ipv4"
API = "API"
"""The cost group of the load balancer for the Kubernetes API."""
SERVICES = "Services"
"""The cost group of the load balancers that the cloud-controller-manager creates."""
_CENTS = Decimal("0.01")
_OF_HOURS = Decimal("0.0001")
_TOO_MUCH = Decimal(10) ** 12  # larger values are no prices; sums of smaller ones are exact
_INDENT = "  "


@dataclass(frozen=True)
class Amount:
    """Money, without and with VAT."""

    net: Decimal = Decimal(0)
    gross: Decimal = Decimal(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.net + other.net, self.gross + other.gross)

    def __mul__(self, count: int) -> Amount:
        return Amount(self.net * count, self.gross * count)


@dataclass(frozen=True)
class Price:
    """A price per hour and per month."""

    hourly: Amount = Amount()
    monthly: Amount = Amount()

    def __add__(self, other: Price) -> Price:
        return Price(self.hourly + other.hourly, self.monthly + other.monthly)

    def __mul__(self, count: int) -> Price:
        return Price(self.hourly * count, self.monthly * count)


class Article(NamedTuple):
    """Something that has a price."""

    kind: str
    name: str
    location: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} in {self.location}"


class Item(NamedTuple):
    """An article and its group: the name of a pool, ``API`` or ``SERVICES``."""

    group: str
    article: Article


Bill = Mapping[Item, int]
"""The count of each item."""


@dataclass(frozen=True)
class PriceList:
    """The prices of a project."""

    currency: str  # ISO 4217
    vat_rate: str  # percent, as the API returns it
    prices: Mapping[Article, Price]

    def total(self, bill: Bill) -> Price:
        """The sum of all items whose price is known."""
        known = ((self.prices.get(item.article), count) for item, count in bill.items())
        return sum((price * count for price, count in known if price is not None), Price())

    def missing(self, bill: Bill) -> list[str]:
        """The articles without a known price."""
        return sorted({str(item.article) for item in bill if item.article not in self.prices})


def parse_prices(answer: Mapping[str, Any]) -> PriceList:
    """Reads the answer of ``GET /pricing``. Entries without a valid price are left out."""
    pricing = answer["pricing"]
    prices: dict[Article, Price] = {}
    for field, kind, name in (
        ("server_types", SERVER, "name"),
        ("load_balancer_types", BALANCER, "name"),
        ("primary_ips", ADDRESS, "type"),
    ):
        for entry in pricing[field]:
            for at in entry["prices"]:
                price = _price(at)
                if price is not None:
                    prices[Article(kind, entry[name], at["location"])] = price
    return PriceList(pricing["currency"], str(pricing["vat_rate"]), prices)


def _price(entry: Mapping[str, Any]) -> Price | None:
    try:
        hourly, monthly = (
            Amount(*(Decimal(entry[f"price_{per}"][name]) for name in ("net", "gross")))
            for per in ("hourly", "monthly")
        )
    except (InvalidOperation, LookupError, TypeError):
        return None
    amounts = (hourly.net, hourly.gross, monthly.net, monthly.gross)
    are_prices = all(amount.is_finite() and 0 <= amount < _TOO_MUCH for amount in amounts)
    return Price(hourly, monthly) if are_prices else None


def bill_of(
    servers: Iterable[tuple[str, Placement, bool]],
    balancers: Iterable[tuple[str, str]] = (),
    endpoints: Iterable[tuple[str, str]] = (),
) -> Counter[Item]:
    """The items of a bill.

    ``servers`` are pool, placement, and whether it has a public IPv4 address; IPv6 addresses are free.
    ``balancers`` of Services and ``endpoints`` of the Kubernetes API are type and location.
    """
    bill: Counter[Item] = Counter()
    for pool, placement, has_ipv4 in servers:
        bill[Item(pool, Article(SERVER, placement.server_type, placement.location))] += 1
        if has_ipv4:
            bill[Item(pool, Article(ADDRESS, IPV4, placement.location))] += 1
    for group, some in ((API, endpoints), (SERVICES, balancers)):
        for name, location in some:
            bill[Item(group, Article(BALANCER, name, location))] += 1
    return bill


def outputs(bill: Bill, prices: PriceList, scaled: Sequence[Pool] = ()) -> dict[str, Any]:
    """The cost as an output of the stack: texts, because numbers there are floats."""
    total = prices.total(bill)
    addresses = {item: count for item, count in bill.items() if item.article.kind == ADDRESS}
    groups = {
        group: prices.total({item: count for item, count in bill.items() if item.group == group}).monthly
        for group in dict.fromkeys(item.group for item in bill)
    }
    result: dict[str, Any] = {
        "currency": prices.currency,
        "hourly": _texts(total.hourly, _OF_HOURS),
        "monthly": _texts(total.monthly, _CENTS),
        "monthlyByPool": {group: _texts(amount, _CENTS) for group, amount in groups.items()},
        "monthlyOfIpv4": _texts(prices.total(addresses).monthly, _CENTS),
    }
    if scaled:
        result["monthlyByScaledPool"] = {
            pool.name: dict(zip(("from", "to"), _monthly_texts(pool, prices), strict=True)) for pool in scaled
        }
    missing = _missing([bill], scaled, prices)
    return {**result, "withoutPrice": missing} if missing else result


def table(title: str, bill: Bill, now: Bill, prices: PriceList, scaled: Sequence[Pool] = ()) -> str:
    """The cost as a table, and the difference to the present; sums are without ``scaled`` pools."""
    total, running = prices.total(bill), prices.total(now)
    rows: list[tuple[str, ...]] = [("", "", "", "month", "", "hour", "")]
    rows.append(("", "", "", "net", "gross", "net", "gross"))
    for (group, article), count in bill.items():
        price = prices.prices.get(article)
        amounts = _cells(price * count) if price is not None else ("?",) * 4
        rows.append((group, f"{count} x {article.kind} {article.name}", article.location, *amounts))
    rows.append(("sum", "", "", *_cells(total)))
    rows.append(("now", "", "", *_cells(running)))
    rows.append(("difference", "", "", *_cells(total + running * -1, sign="+")))
    missing = _missing([bill, now], scaled, prices)
    vat = f"gross with {float(prices.vat_rate):g} % VAT"
    heading = f"Cost of {title} in {prices.currency}, {vat}, without traffic:"
    notes = [f"The sums don't include these items without a price: {', '.join(missing)}."] if missing else []
    return "\n".join([heading, *_aligned(rows), *(_note(pool, prices) for pool in scaled), *notes])


def _bounds(pool: Pool) -> tuple[Bill, Bill]:
    """The bills with the minimum and the maximum number of servers of an autoscaled pool."""
    servers = [(pool.name, Placement(pool.server_type, pool.location), bool(pool.public_ipv4))]
    return bill_of(servers * pool.min), bill_of(servers * pool.max_size)


def _note(pool: Pool, prices: PriceList) -> str:
    """The cost of a pool that is not part of the sums."""
    lowest, highest = _monthly_texts(pool, prices)
    what = f"{pool.min} to {pool.max_size} x server {pool.server_type} in {pool.location}"
    sums = " and ".join(f"{lowest[per]} to {highest[per]} {per}" for per in ("net", "gross"))
    return (
        f"The sums don't include the pool {pool.name}, whose servers the cluster-autoscaler creates: "
        f"{what} cost {sums} a month."
    )


def _monthly_texts(pool: Pool, prices: PriceList) -> list[dict[str, str]]:
    return [_texts(prices.total(bill).monthly, _CENTS) for bill in _bounds(pool)]


def _missing(bills: Sequence[Bill], scaled: Sequence[Pool], prices: PriceList) -> list[str]:
    """The articles without a known price in all bills."""
    every = [*bills, *(highest for _, highest in map(_bounds, scaled))]
    return sorted({article for bill in every for article in prices.missing(bill)})


def _cells(price: Price, sign: str = "") -> tuple[str, ...]:
    month, hour = price.monthly, price.hourly
    return (
        *(_text(amount, _CENTS, sign) for amount in (month.net, month.gross)),
        *(_text(amount, _OF_HOURS, sign) for amount in (hour.net, hour.gross)),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = 3  # columns of words; those of numbers end where their numbers end
    return [
        _INDENT
        + _INDENT.join(
            cell.ljust(width) if index < words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _texts(amount: Amount, unit: Decimal) -> dict[str, str]:
    return {"net": _text(amount.net, unit), "gross": _text(amount.gross, unit)}


def _text(amount: Decimal, unit: Decimal, sign: str = "") -> str:
    rounded = amount.quantize(unit, ROUND_HALF_UP)
    return f"{abs(rounded) if rounded.is_zero() else rounded:{'' if rounded.is_zero() else sign}f}"
