import re

import pytest

from tests.judges.bare_machine import session

pytestmark = [
    pytest.mark.usefixtures("bare_machine_possible"),
    pytest.mark.nightly,
    pytest.mark.machines,
    pytest.mark.cluster,
    pytest.mark.timeout(2400),
]


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_root_gets_machines(suite):
    said = session(suite, "root", "./dev doctor", "./dev up", "./dev kubectl get nodes")
    examined, _, brought_up = said.partition("✓ Debian packages")
    assert "haproxy" in examined  # doctor has said what up is going to install
    assert "API record" not in said
    for name in ("control", "worker-1", "worker-2"):
        assert re.search(rf"^ccm-from-scratch-{name} +Ready ", brought_up, re.MULTILINE), name
