"""Complete lists, put together from pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True)
class UndecodableItem:
    """An item of a list that didn't decode. It exists, and must not be taken for absent."""

    id: int
    name: str
    problem: str


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A complete list."""

    items: list[T]
    undecodable: tuple[UndecodableItem, ...] = ()


@dataclass
class Pages(Generic[T]):
    """The pages of a list so far. Each is decoded when it comes: as JSON all of them together are large."""

    kind: type[T]  # what items are decoded into
    total: int | None = None  # how many items there are in all; None = the cloud has not said
    count: int = 0  # how many have arrived
    _items: list[T] = field(default_factory=list[T])
    _undecodable: list[UndecodableItem] = field(default_factory=list[UndecodableItem])
    _ids: set[object] = field(default_factory=set[object])

    @property
    def complete(self) -> bool:
        """Whether all items came, and each once."""
        return len(self._ids) == self.count == (self.count if self.total is None else self.total)

    def add(self, page: Sequence[Mapping[str, Any]]) -> None:
        """Decode a page."""
        for item in page:
            number = item.get("id")
            self.count += 1
            self._ids.add(number if isinstance(number, int) else str(number))
            try:
                self._items.append(msgspec.convert(item, self.kind))
            except msgspec.ValidationError as error:
                known = number if isinstance(number, int) else 0
                self._undecodable.append(UndecodableItem(known, str(item.get("name", "")), str(error)))

    def listing(self) -> Listing[T]:
        """What came."""
        return Listing(self._items, tuple(self._undecodable))
