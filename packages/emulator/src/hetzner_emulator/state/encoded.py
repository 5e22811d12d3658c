"""Objects as the API shows them, encoded once and kept until anything in the state changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from hetzner_emulator.state.store import Store


class Encoded:
    """What is shown of objects, as JSON; at most once of each object that there is.

    Args:
        store: The state; every change makes all of it stale, as what is shown of one object may be of others.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = store.version
        self._kept: dict[Hashable, msgspec.Raw] = {}

    def of(self, key: Hashable, show: Callable[[], Any]) -> msgspec.Raw:
        """One object, which the encoder takes as it is.

        Args:
            key: Of the object.
            show: What is shown of it, a function of the state alone.
        """
        if self._version != self._store.version:
            self._kept.clear()
            self._version = self._store.version
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = msgspec.Raw(msgspec.json.encode(show()))
        return found
