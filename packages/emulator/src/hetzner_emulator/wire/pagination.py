"""Filtering, sorting, and paging of listings."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from multidict import MultiMapping

from hetzner_emulator.errors import InvalidInput
from hetzner_emulator.wire.labels import parse_selector

T = TypeVar("T")
DEFAULT_PER_PAGE = 25
MAX_PER_PAGE = 50


@dataclass(frozen=True)
class Page:
    """A page of a listing."""

    number: int
    per_page: int
    total: int

    @property
    def last(self) -> int:
        """The number of the last page; an empty listing has one page."""
        return max(1, -(-self.total // self.per_page))

    @property
    def previous(self) -> int | None:
        """The number of the page before, or None."""
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """The number of the page after, or None."""
        return self.number + 1 if self.number < self.last else None

    def cut(self, items: Sequence[T]) -> Sequence[T]:
        """The entries of this page."""
        return items[(self.number - 1) * self.per_page : self.number * self.per_page]

    def meta(self) -> dict[str, Any]:
        """The object ``meta`` of the response."""
        return {
            "pagination": {
                "page": self.number,
                "per_page": self.per_page,
                "previous_page": self.previous,
                "next_page": self.next,
                "last_page": self.last,
                "total_entries": self.total,
            }
        }

    def link(self, url: str, query: Iterable[tuple[str, str]]) -> str:
        """The header ``Link`` with the previous, next, and last page."""
        kept = [(key, value) for key, value in query if key not in {"page", "per_page"}]
        parts = [("prev", self.previous), ("next", self.next), ("last", self.last)]
        return ", ".join(
            f'<{url}?{urlencode([*kept, ("page", page), ("per_page", self.per_page)])}>; rel="{relation}"'
            for relation, page in parts
            if page is not None
        )


def read_page(query: Mapping[str, str], total: int, maximum: int = MAX_PER_PAGE) -> Page:
    """The page in a query; ``per_page`` is cut to the maximum, as at Hetzner. Raises InvalidInput."""
    number = _positive(query, "page", 1)
    return Page(number, min(_positive(query, "per_page", DEFAULT_PER_PAGE), maximum), total)


def _positive(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if len(text) > 9 or not text.isdecimal() or not text.isascii() or int(text) < 1:
        raise InvalidInput({name: ["must be a positive integer"]})
    return int(text)


def wanted_values(query: MultiMapping[str], name: str) -> frozenset[str]:
    """The values of a filter in a query, without empty ones."""
    return frozenset(text for text in query.getall(name, []) if text)


def filter_entries(
    entries: Iterable[T],
    query: MultiMapping[str],
    fields: Mapping[str, Callable[[T], str | frozenset[str] | None]],
) -> list[T]:
    """The entries that match the filters of a query; of a repeated parameter, one value must match.

    ``fields`` maps each parameter to a function of an entry. It returns a text, several texts of which one
    must match, or None, which never matches.
    """
    filters = [
        (value_of, wanted) for name, value_of in fields.items() if (wanted := wanted_values(query, name))
    ]
    return [entry for entry in entries if all(_has(value_of(entry), wanted) for value_of, wanted in filters)]


def _has(value: str | frozenset[str] | None, wanted: frozenset[str]) -> bool:
    return bool(value & wanted) if isinstance(value, frozenset) else value in wanted


def select_labels(
    entries: Iterable[T], query: MultiMapping[str], labels_of: Callable[[T], Mapping[str, str]]
) -> list[T]:
    """The entries whose labels match the query's selector; raises InvalidInput."""
    selector = parse_selector(query.get("label_selector", ""))
    return [entry for entry in entries if selector.matches(labels_of(entry))]


def sort_entries(entries: list[T], sorts: Sequence[str], allowed: Collection[str]) -> list[T]:
    """Entries in the order of ``sort`` parameters such as ``name`` or ``created:desc``; by ID otherwise."""
    directions: dict[str, str] = {}
    for sort in sorts:
        field, _, direction = sort.partition(":")
        if field not in allowed or direction not in {"", "asc", "desc"}:
            raise InvalidInput(
                {"sort": [f"'{sort}' is not allowed; allowed fields: {', '.join(sorted(allowed))}"]}
            )
        directions.setdefault(field, direction)  # a second direction changes nothing
    result = sorted(entries, key=lambda entry: entry.id)  # type: ignore[attr-defined]
    for field, direction in reversed(directions.items()):
        result.sort(key=lambda entry: _sort_key(getattr(entry, field)), reverse=direction == "desc")
    return result


def _sort_key(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)
