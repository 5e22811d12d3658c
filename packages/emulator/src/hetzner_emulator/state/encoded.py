"""A cache of objects as the API shows them, as JSON; any change of the state invalidates it."""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from hetzner_emulator.state.store import Store


class Encoded:
    """The JSON of objects; each change of the state invalidates all: an object can show parts of others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = store.version
        self._kept: dict[Hashable, msgspec.Raw] = {}

    def of(self, key: Hashable, show: Callable[[], Any]) -> msgspec.Raw:
        """The JSON of an object, which the encoder copies; ``show`` depends on the state alone."""
        if self._version != self._store.version:
            self._kept.clear()
            self._version = self._store.version
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = msgspec.Raw(msgspec.json.encode(show()))
        return found
