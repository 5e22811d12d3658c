"""What all tests share."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings

# No test is timed: how fast a busy machine gets through an example says nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `./dev bench mutants` runs a test hundreds of times.
settings.register_profile(
    "mutants", settings.get_profile("untimed"), max_examples=30, derandomize=True, database=None
)
settings.load_profile("untimed")


def pytest_configure() -> None:
    # Before Python 3.12, pytest-asyncio's look at the current event loop makes one that nobody closes, unless
    # it was told that there is none.
    asyncio.set_event_loop(None)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes get no name of their content: what is compressed holds the time, and workers have to agree."""
    return "bytes" if isinstance(val, bytes) else None
