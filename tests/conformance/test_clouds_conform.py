from collections.abc import AsyncIterator

import pytest
from harnesses import CLOUDS

from ccm.testing.conformance import Harness
from ccm.testing.conformance.suite import *  # noqa: F403 - every test of it

# Under the official names the same code runs once more, which the fast layer can do without.
PARAMETERS = [
    pytest.param(name, marks=pytest.mark.slow) if name.endswith("official") else name for name in CLOUDS
]


@pytest.fixture(params=PARAMETERS)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with CLOUDS[request.param].opened() as one:
        yield one
