import argparse

import pytest

from bench import emulator


@pytest.mark.slow
async def test_every_operation_that_it_asks_for_is_answered() -> None:
    rows = await emulator.measure(argparse.Namespace(answers=100, clients=20, requests=400))
    assert [row.bound is not None for row in rows] == [
        row.what.startswith((emulator.JUDGED, "memory")) for row in rows
    ]
    assert all(row.ours > 0 for row in rows if not row.what.startswith("memory"))
