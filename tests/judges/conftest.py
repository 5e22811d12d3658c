from pathlib import Path

import pytest

from hetzner_machines import probe


@pytest.fixture
def bare_machine_possible(tmp_path: Path) -> None:
    reason = probe.available(tmp_path)
    if reason:
        pytest.skip(reason)
