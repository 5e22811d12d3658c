import os
from pathlib import Path

import pytest

from sandbox.site import cache_directory


@pytest.fixture(scope="session")
def cache() -> Path:
    return cache_directory(os.environ)
