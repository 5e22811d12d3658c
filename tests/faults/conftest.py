"""What goes wrong between the CCM and the cloud, and whether all ends well: cells of a matrix, and kills."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The emulated cloud is shared with the unit tests of ccm.hetzner.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "hetzner"))

from tests.faults import lab


@pytest.fixture(autouse=True)
def short_pauses() -> Iterator[None]:
    with lab.short_pauses():
        yield
