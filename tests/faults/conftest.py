"""The lab of bench/, whose cells are asserted here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import fault_lab


@pytest.fixture(autouse=True)
def hurried() -> Iterator[None]:
    with fault_lab.hurried():
        yield
