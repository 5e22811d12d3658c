import re

import pytest

from tests.judges.bare_machine import session

# the machine itself takes root; what the user's sandbox watches counts as that user's, not as ours
pytestmark = [
    pytest.mark.usefixtures("bare_machine_possible"),
    pytest.mark.nightly,
    pytest.mark.machines,
    pytest.mark.cluster,
    pytest.mark.timeout(2400),
]


def test_a_user_without_root_gets_hollow_nodes_and_a_hint_how_to_get_machines():
    # The fast tests of what depends on the user: with the oldest supported Python, and without root.
    said = session("bookworm", "visitor", "./dev up", "./dev kubectl get nodes", "./dev test unit packages")
    first, *_ = [
        line for line in said.splitlines() if not line.startswith(("• installing", "• making", "• creating"))
    ]
    assert first.startswith("• servers are only API records; simulated Nodes run no Pods. Reason: ")
    assert "sudo ./dev up" in first
    for name in ("control", "worker-1", "worker-2"):
        assert re.search(rf"^ccm-from-scratch-{name} +Ready ", said, re.MULTILINE), name
