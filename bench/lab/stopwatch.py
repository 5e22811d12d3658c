"""How long a call takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.monotonic()
    run()
    return time.monotonic() - started
