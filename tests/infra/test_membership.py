from __future__ import annotations

import subprocess

import pytest

from infra.membership import MembershipProvider, leave_script, make_room_script


@pytest.fixture
def k3s(tmp_path):
    """A `k3s` with one node, which writes down what is deleted; gives a function that runs a script."""
    log = tmp_path / "deleted"
    log.touch()

    def run(script, *, node="", ready=True):
        program = tmp_path / "k3s"
        program.write_text(
            f"""#!/bin/sh
case "$*" in
  *"get --raw /readyz"*) {"true" if ready else "false"} ;;
  *"get node"*) printf %s '{node}' ;;
  *delete*) echo "$*" >> {log} ;;
esac
"""
        )
        program.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-s"], input=script, text=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0
        return log.read_text()

    return run


@pytest.mark.parametrize("provider_id", ["hcloud://42", "ccm-from-scratch://42"])
def test_a_node_of_this_server_stays(k3s, provider_id):
    assert k3s(make_room_script("w-1", "42"), node=f"Node {provider_id}") == ""


def test_a_node_that_nobody_has_looked_at_stays_without_its_password(k3s):
    """A predecessor that came back once more would keep the name with it."""
    (password,) = k3s(make_room_script("w-1", "42"), node="Node ").splitlines()
    assert "delete secret" in password
    assert password.endswith(" w-1.node-password.k3s")


@pytest.mark.parametrize("provider_id", ["hcloud://41", "ccm-from-scratch://142", "hcloud://421"])
def test_a_node_of_another_server_goes_with_its_password(k3s, provider_id):
    node, password = k3s(make_room_script("w-1", "42"), node=f"Node {provider_id}").splitlines()
    assert node.endswith("delete node --ignore-not-found --timeout=30s w-1")
    assert "--namespace=kube-system delete secret" in password
    assert password.endswith(" w-1.node-password.k3s")


def test_the_password_of_a_machine_that_never_became_a_node_goes(k3s):
    assert "w-1.node-password.k3s" in k3s(make_room_script("w-1", "42"), node="")


def test_a_cluster_that_does_not_answer_yet_has_no_nodes(k3s):
    assert k3s(make_room_script("w-1", "42"), node="Node hcloud://41", ready=False) == ""


def test_a_server_without_k3s_has_no_nodes():
    done = subprocess.run(["sh", "-s"], input=make_room_script("w", "1"), text=True, timeout=60, check=False)
    assert done.returncode == 0


def test_leaving_deletes_the_node_and_its_password(k3s):
    assert [line.split()[-1] for line in k3s(leave_script("w-1")).splitlines()] == [
        "w-1",
        "w-1.node-password.k3s",
    ]


@pytest.mark.parametrize(
    ("changed", "replaces"), [("server_id", []), ("member_id", ["member_id"]), ("host_key", None)]
)
def test_only_another_worker_leaves(changed, replaces):
    state = {"server_id": "1", "member_id": "2", "node": "w", "host_key": "H"}
    result = MembershipProvider().diff("", state, {**state, changed: "9"})
    assert result.changes is (replaces is not None)
    assert result.replaces == (replaces or [])
