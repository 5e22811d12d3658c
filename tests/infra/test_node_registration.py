import asyncio
import json

import pytest
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.node_registration import (
    NodeMetadata,
    NodeRegistrationProvider,
    free_name_script,
    node_metadata_patch,
    unregister_script,
)


@pytest.fixture
def k3s(tmp_path):
    """A `k3s` with one node, which writes down what is deleted; gives a function that runs a script."""
    log = tmp_path / "deleted"
    log.touch()

    def run(script, *, node=""):
        k3s = f"""case "$*" in
  *"get node"*) printf %s '{node}' ;;
  *delete*) echo "$*" >> {log} ;;
esac"""
        sh(script, programs(tmp_path, k3s=k3s))
        return log.read_text()

    return run


PASSWORD = "w-1.node-password.k3s"


@pytest.mark.parametrize(
    ("node", "gone"),
    [
        # a Node of this server stays
        ("Node hcloud://42", []),
        ("Node ccm-from-scratch://42", []),
        # one that nobody has looked at: a predecessor that comes back would keep the name with its password
        ("Node ", [PASSWORD]),
        # a machine that never became a Node
        ("", [PASSWORD]),
        # a Node of another server
        ("Node hcloud://41", ["w-1", PASSWORD]),
        ("Node ccm-from-scratch://142", ["w-1", PASSWORD]),
        ("Node hcloud://421", ["w-1", PASSWORD]),
    ],
)
def test_a_name_is_free_for_this_server_alone(k3s, node, gone):
    deleted = k3s(free_name_script("w-1", "42"), node=node).splitlines()
    assert [line.split()[-1] for line in deleted] == gone
    assert all("--namespace=kube-system delete secret" in line for line in deleted if PASSWORD in line)


def test_leaving_deletes_the_node_and_its_password(k3s):
    assert [line.split()[-1] for line in k3s(unregister_script("w-1")).splitlines()] == ["w-1", PASSWORD]


@pytest.mark.parametrize(
    ("changed", "replaces"), [("server_id", []), ("member_id", ["member_id"]), ("host_key", [])]
)
def test_only_another_worker_leaves(changed, replaces):
    state = {"server_id": "1", "member_id": "2", "node": "w", "host_key": "H"}
    result = NodeRegistrationProvider().diff("", state, {**state, changed: "9"})
    assert (result.changes, result.replaces) == (True, replaces)


def test_a_changed_label_is_another_state_and_nothing_new_is_none():
    state = {"server_id": "1", "member_id": "2", "node": "w", "host_key": "H"}
    same = NodeRegistrationProvider().diff("", state, {**state, "node_labels": {}, "node_taints": []})
    assert same.changes is False
    marked = {**state, "node_labels": {"disk": "fast"}}
    assert NodeRegistrationProvider().diff("", state, marked).changes is True
    assert NodeRegistrationProvider().diff("", marked, {**state, "node_labels": {}}).changes is True


def applied(node, patch):
    labels = {**node["metadata"]["labels"], **patch.get("metadata", {}).get("labels", {})}
    taints = patch.get("spec", {}).get("taints", node["spec"]["taints"])
    metadata = {
        **node["metadata"],
        "labels": {key: value for key, value in labels.items() if value is not None},
    }
    return {"metadata": metadata, "spec": {"taints": taints}}


def taint(text):
    said, _, effect = text.rpartition(":")
    key, _, value = said.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


texts = [
    f"{key}{value}:{effect}"
    for key in "abz"
    for value in ("", "=1")
    for effect in ("NoSchedule", "NoExecute")
]
unique = st.lists(
    st.sampled_from(texts), unique_by=lambda text: (text[0], text.rpartition(":")[2]), max_size=4
)
pools = st.builds(
    NodeMetadata, st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3), unique
)
THEIRS = taint("node.kubernetes.io/unreachable:NoExecute") | {"timeAdded": "2026-01-01T00:00:00Z"}


@given(before=pools, after=pools, lost=st.booleans())
def test_a_node_gets_what_its_pool_says_now_and_keeps_what_others_gave_it(before, after, lost):
    labels, taints = ({}, []) if lost else (before.labels, [taint(text) for text in before.taints])
    node = {
        "metadata": {"name": "w", "resourceVersion": "7", "labels": {**labels, "kubernetes.io/os": "linux"}},
        "spec": {"taints": [THEIRS, *taints]},
    }
    patch = node_metadata_patch(node, before, after)
    result = applied(node, patch)
    assert result["metadata"]["labels"] == {**after.labels, "kubernetes.io/os": "linux"}
    assert result["spec"]["taints"][0] == THEIRS
    assert sorted(map(str, result["spec"]["taints"][1:])) == sorted(str(taint(text)) for text in after.taints)
    assert not patch or patch["metadata"]["resourceVersion"] == "7"
    assert node_metadata_patch(result, before, after) == node_metadata_patch(result, after, after) == {}


async def test_changed_labels_reach_a_node_that_somebody_else_changes_at_the_same_time(
    host, tmp_path, monkeypatch
):
    """The first patch conflicts with a change, so the node is read again."""
    states = [("1", "slow"), ("2", "slow"), ("3", "fast")]
    for number, (version, disk) in enumerate(states):
        metadata = {"name": "w-1", "resourceVersion": version, "labels": {"disk": disk}}
        (tmp_path / f"{number}.json").write_text(json.dumps({"metadata": metadata, "spec": {}}))
    k3s = f"""cd {tmp_path}; touch patches; number=$(wc -l < patches)
case "$*" in
  *"get node"*) cat $number.json ;;
  *patch*) echo "$*" | sed 's/.* -p //' >> patches
    [ $number != 0 ] || {{ echo "Conflict: the object has been modified" >&2; exit 1; }} ;;
esac"""
    monkeypatch.setenv("PATH", programs(tmp_path, k3s=k3s))
    olds = {"server_id": "1", "node": "w-1", "address": host.address, "host_key": ""}
    olds |= {"private_key": host.private_key, "node_labels": {"disk": "slow"}}
    news = {**olds, "node_labels": {"disk": "fast"}}
    await asyncio.to_thread(NodeRegistrationProvider().update, "", olds, news)
    patches = [json.loads(line)["metadata"] for line in (tmp_path / "patches").read_text().splitlines()]
    assert patches == [{"labels": {"disk": "fast"}, "resourceVersion": version} for version in ("1", "2")]
