"""States that a genuine CLI has left when it was killed."""

from __future__ import annotations

import json

import pytest
from engine_lab import Lab

pytestmark = pytest.mark.slow

STACK = "urn:pulumi:dev::lab::pulumi:pulumi:Stack::lab-dev"
COMPONENT = {"urn": "urn:pulumi:dev::lab::a:b:C::c", "custom": False, "type": "a:b:C", "parent": STACK}
PROVIDER = {
    "urn": "urn:pulumi:dev::lab::pulumi:providers:hcloud::default",
    "custom": True,
    "type": "pulumi:providers:hcloud",
}


@pytest.mark.parametrize("command", ["up", "refresh", "destroy"])
def test_a_component_and_a_provider_that_were_being_created_block_nothing(lab: Lab, command: str) -> None:
    pending = [{"type": "creating", "resource": resource} for resource in (COMPONENT, PROVIDER)]
    state = {
        "resources": [{"urn": STACK, "custom": False, "type": "pulumi:pulumi:Stack"}],
        "pending_operations": pending,
    }
    (lab.root / "export.json").write_text(json.dumps({"version": 3, "deployment": state}))
    assert lab.run("stack", "import", "--file", str(lab.root / "export.json")).status == 0
    lab.program("")
    done = lab.run(command, "--yes")
    assert done.status == 0, done.out + done.err
    assert done.out.count("an earlier run was interrupted while creating this resource") == 2
    assert "pending_operations" not in lab.state()
