"""The addresses that tests with machines get."""

from __future__ import annotations

import random
import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from tests.ranges import NoRangeError, claimed_range

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines run only on Linux")

CLAIM = """
from tests import ranges
with ranges.claimed_range({}) as claimed:
    print(claimed)
"""


@pytest.fixture
def two():
    """Names that no other run claims, of any test; none of them becomes a route."""
    first = random.randrange(0, 1 << 24, 2)
    return [IPv4Network((int(IPv4Address("10.0.0.0")) + number, 32)) for number in (first, first + 1)]


@pytest.mark.parametrize("attempt", range(4))  # the first range would be right by luck half of the time
def test_parallel_runs_have_different_ranges(attempt, two):
    with claimed_range(two) as ours:
        code = CLAIM.format(f"[{', '.join(f'ranges.IPv4Network({str(one)!r})' for one in two)}]")
        other = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            timeout=60,
        )
    assert {str(ours), other.stdout.strip()} == {*map(str, two)}


def test_no_free_range_is_an_error(two):
    refused = pytest.raises(NoRangeError, match=f"all 2 ranges, {two[0]} to {two[1]}")
    with claimed_range(two), claimed_range(two), refused, claimed_range(two):
        pass
