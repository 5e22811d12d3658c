"""What plays a stranger needs."""

from pathlib import Path

import pytest

from hetzner_machines import probe


@pytest.fixture
def bare_machine_possible(tmp_path: Path) -> None:
    """Skips a test where no bare machine can be had."""
    reason = probe.available(tmp_path)
    if reason:
        pytest.skip(reason)
