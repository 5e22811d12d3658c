"""Addresses for tests with machines: those of each are routes of the host, which two runs must not share."""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network

RANGES = (*IPv4Network("198.18.128.0/17").subnets(new_prefix=26),)
"""For benchmarks (RFC 2544), apart from what `choose` of a sandbox's site can claim (`BENCHMARK_RANGE`)."""


class NoRangeError(Exception):
    """Other tests of this network namespace have all ranges."""

    def __init__(self, ranges: Sequence[IPv4Network]) -> None:
        super().__init__(f"other tests have all {len(ranges)} ranges, {ranges[0]} to {ranges[-1]}")


@contextmanager
def claimed_range(ranges: Sequence[IPv4Network] = RANGES) -> Iterator[IPv4Network]:
    """A range that no other test of this network namespace has as long as this lasts."""
    # The claim is the name of an abstract socket, which belongs to the network namespace, as routes do.
    # Any of them, since what a killed run left still has one.
    shuffled = random.sample(ranges, len(ranges))
    with socket.socket(socket.AF_UNIX) as claim:
        ours = next((one for one in shuffled if _is_ours(claim, one)), None)
        if ours is None:
            raise NoRangeError(ranges)
        yield ours


def _is_ours(claim: socket.socket, one: IPv4Network) -> bool:
    with suppress(OSError):
        claim.bind(f"\0ccm-from-scratch tests {one}")
        return True
    return False
