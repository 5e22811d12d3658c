"""The addresses that tests with machines get."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from ranges import claimed_range

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines run on Linux alone")

CLAIM = """
import ranges
with ranges.claimed_range({}) as claimed:
    print(claimed)
"""


@pytest.mark.parametrize("attempt", range(4))  # the first range would be right by luck half of the time
def test_runs_side_by_side_never_have_the_same_addresses(attempt):
    # A documentation range, so that tests with machines beside this one have what they need.
    two = [*IPv4Network("192.0.2.0/24").subnets(1)]
    with claimed_range(two) as ours:
        code = CLAIM.format(f"[{', '.join(f'ranges.IPv4Network({str(one)!r})' for one in two)}]")
        other = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            timeout=60,
        )
    assert {str(ours), other.stdout.strip()} == {*map(str, two)}
