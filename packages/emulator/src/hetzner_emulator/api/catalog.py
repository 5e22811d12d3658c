"""Locations, prices, and catalogs: resources that clients can only read."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.offer import HOURS_OF_A_MONTH, TERABYTE_OF_TRAFFIC, Deprecation
from hetzner_emulator.api.registry import add_operation
from hetzner_emulator.api.resource import listing
from hetzner_emulator.errors import InvalidInput, NotFound
from hetzner_emulator.wire.pagination import filter_entries, sort_entries
from hetzner_emulator.wire.reply import Reply

VAT = 1.19


class Entry(Protocol):
    """An entry of a catalog."""

    @property
    def id(self) -> int:
        """Unique in its catalog."""
        ...

    @property
    def name(self) -> str:
        """The name."""
        ...


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True)
class Location:
    """A location of resources."""

    id: int
    name: str
    description: str
    country: str
    city: str
    latitude: float
    longitude: float
    network_zone: str
    datacenter: str

    @property
    def availability_zone(self) -> str:
        """The former zone, which only the metadata service has."""
        return f"{self.name}-{self.datacenter}"

    @functools.cache  # noqa: B019  locations live as long as the module
    def wire(self) -> dict[str, Any]:
        """The location as the API shows it; responses share it, so don't change it."""
        return {key: value for key, value in vars(self).items() if key != "datacenter"}


LOCATIONS: Mapping[str, Location] = {
    row[1]: Location(*row)
    for row in (
        (1, "fsn1", "Falkenstein DC Park 1", "DE", "Falkenstein", 50.47612, 12.370071, "eu-central", "dc14"),
        (2, "nbg1", "Nuremberg DC Park 1", "DE", "Nuremberg", 49.452102, 11.076665, "eu-central", "dc3"),
        (3, "hel1", "Helsinki DC Park 1", "FI", "Helsinki", 60.169855, 24.938379, "eu-central", "dc2"),
        (4, "ash", "Ashburn, VA", "US", "Ashburn, VA", 39.045821, -77.487073, "us-east", "dc1"),
        (5, "hil", "Hillsboro, OR", "US", "Hillsboro, OR", 45.54222, -122.951924, "us-west", "dc1"),
        (6, "sin", "Singapore", "SG", "Singapore", 1.283333, 103.833333, "ap-southeast", "dc1"),
    )
}
NETWORK_ZONES = frozenset(location.network_zone for location in LOCATIONS.values())


def price(monthly: float) -> dict[str, dict[str, str]]:
    """Hourly and monthly price for a price in euros a month without tax."""
    return {"price_hourly": money(monthly / HOURS_OF_A_MONTH), "price_monthly": money(monthly)}


def money(net: float) -> dict[str, str]:
    """An amount without and with tax."""
    return {"net": f"{net:.4f}", "gross": f"{net * VAT:.4f}"}


def traffic_prices(monthly: Mapping[str, float], terabytes: int = 20) -> list[dict[str, Any]]:
    """Prices by location in euros a month without tax, with included traffic.

    The included traffic is the same everywhere, although Hetzner includes more in Europe.
    """
    return [
        {
            "location": name,
            **price(euros),
            "included_traffic": terabytes * 1024**4,
            "price_per_tb_traffic": money(TERABYTE_OF_TRAFFIC[name]),
        }
        for name, euros in monthly.items()
    ]


def deprecation_wire(deprecation: Deprecation | None) -> dict[str, str] | None:
    """A deprecation as the API shows it."""
    return None if deprecation is None else dict(vars(deprecation))


@dataclass(frozen=True)
class Catalog(Generic[E]):
    """A resource that clients can only read."""

    path: str  # for example `locations`; also the key of listings
    key: str  # of single objects
    entries: Sequence[E]
    wire: Callable[[Call, E], dict[str, Any]]  # how the API shows an entry
    sorts: Sequence[str] = ("id",)  # fields that listings can be sorted by
    # query parameters besides `name`, with the text that they compare with
    filters: Mapping[str, Callable[[E], str | None]] = field(default_factory=dict)
    # whether an entry is in listings and has a name; GET finds each by its ID
    listed: Callable[[E], bool] = lambda _entry: True

    def register(self) -> None:
        """Register the listing, and GET of an entry."""
        add_operation("GET", f"/{self.path}", self._list)
        add_operation("GET", f"/{self.path}/{{id}}", self._get)

    async def _list(self, call: Call) -> Reply:
        fields = {"name": lambda entry: entry.name, **self.filters}
        entries = filter_entries(filter(self.listed, self.entries), call.query, fields)
        entries = sort_entries(entries, call.query.getall("sort", []), self.sorts)
        return listing(call, self.path, entries, lambda entry: self.wire(call, entry))

    async def _get(self, call: Call) -> Reply:
        identity = call.identity("id", self.key)
        entry = self.by_id(identity)
        if entry is None:
            raise NotFound(self.key, identity)
        return Reply(200, {self.key: self.wire(call, entry)})

    def by_id(self, identity: int | None) -> E | None:
        """The entry with this ID, or None."""
        return next((entry for entry in self.entries if entry.id == identity), None)

    def called(self, text: str) -> list[E]:
        """The entries with this ID or name."""
        return [
            entry
            for entry in self.entries
            if text == str(entry.id) or (text == entry.name and self.listed(entry))
        ]

    def known(self, name: str) -> E:
        """The entry of an existing object, even if it isn't offered any more."""
        return next(entry for entry in self.entries if entry.name == name)

    def find(self, text: str) -> E:
        """The entry with an ID or name from a request; raises InvalidInput, with the key as field."""
        if found := self.called(text):
            return found[0]
        what = "ISO" if self.key == "iso" else self.key.replace("_", " ")
        raise InvalidInput({self.key: [f"{what} '{text}' not found"]})
