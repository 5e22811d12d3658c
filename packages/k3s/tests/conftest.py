import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.site import cache_directory


@pytest.fixture(scope="session")
def cache() -> Path:
    return cache_directory(os.environ)


@pytest.fixture
def frozen() -> datetime:
    return datetime(2026, 11, 21, 12, tzinfo=UTC)
