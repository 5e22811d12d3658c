"""Complete lists from several pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True)
class UndecodableItem:
    """An undecodable item of a list. It exists, so don't treat it as deleted."""

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
    """The received pages of a list. Each page is decoded immediately, because JSON needs more memory."""

    kind: type[T]  # the type of the items
    total: int | None = None  # total number of items; None = not reported
    count: int = 0  # number of received items
    _items: list[T] = field(default_factory=list[T])
    _undecodable: list[UndecodableItem] = field(default_factory=list[UndecodableItem])
    _ids: set[object] = field(default_factory=set[object])

    @property
    def complete(self) -> bool:
        """Whether each item was received exactly once."""
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
        """The received items."""
        return Listing(self._items, tuple(self._undecodable))
