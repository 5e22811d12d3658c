"""Waiting for a condition, with a timeout."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float, poll_seconds: float = 0.05) -> bool:
    """Wait until a condition holds; False if it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True
