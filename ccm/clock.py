"""The clock by which controllers wait and measure ages: the event loop's, so tests run on a virtual one."""

import asyncio


def loop_time() -> float:
    """Seconds of the running event loop's clock, which never goes back and isn't the time of day."""
    return asyncio.get_running_loop().time()
