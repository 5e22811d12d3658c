import asyncio
import time

from bench.lab.clock import Clock, run

HOUR = 3600.0


def test_an_hour_takes_no_real_time() -> None:
    clock = Clock()
    before, started = clock.now, time.monotonic()

    async def wait() -> None:
        await asyncio.gather(*(asyncio.sleep(HOUR / 3600 * number) for number in range(3601)))

    run(clock, wait())
    assert HOUR <= clock.now - before < HOUR + 1
    assert time.monotonic() - started < HOUR / 10


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
