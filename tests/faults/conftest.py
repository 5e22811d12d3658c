"""What goes wrong between the CCM and the cloud, and whether all ends well: cells of a matrix, and kills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import lab


@pytest.fixture(autouse=True)
def short_pauses() -> Iterator[None]:
    with lab.short_pauses():
        yield
