import asyncio
import time

from bench.lab.clock import Clock, run

HOUR = 3600.0


def test_the_clock_stands_still_while_a_thread_works() -> None:
    clock = Clock()
    seen: list[float] = []

    async def wait() -> None:
        ticking = asyncio.create_task(asyncio.sleep(HOUR))
        before = clock.now
        await asyncio.to_thread(time.sleep, 0.05)
        seen.append(clock.now - before)
        ticking.cancel()

    run(clock, wait())
    assert seen == [0.0]
