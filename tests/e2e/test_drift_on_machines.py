import pytest

from tests.e2e import drift
from tests.e2e.conftest import environment_of

FIRST = [("unit stopped", 1), ("unit disabled", 2)]
"""Of three control servers, two that leave the third without a quorum."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.machines,
    pytest.mark.cluster,
    pytest.mark.timeout(drift.SECONDS),
]


@pytest.fixture
def three_public(tmp_path_factory, kubernetes_version):
    folder = tmp_path_factory.mktemp("three")
    yield from environment_of(folder, kubernetes_version, controlCount=3, workerCount=1)


def test_drift_of_three_control_servers_is_gone_after_one_run(three_public):
    drift.are_repaired(three_public, FIRST)
    drift.random_changes_are_repaired(three_public)
