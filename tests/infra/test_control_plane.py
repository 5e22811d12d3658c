import itertools
from collections import Counter

import pytest
from control_servers import DYNAMIC, ROLES, SERVER, of, waits_for
from infra_settings import configured, read_settings

from ccm_pulumi.cluster.etcd_member_guard import EtcdMemberGuardProvider
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider
from ccm_pulumi.servers.rollout import rollout_order


def test_new_servers_boot_together_and_join_one_by_one(three):
    fresh = three()
    assert set(of(fresh, SERVER)) == {*ROLES, "worker-1"}
    assert not any(waits_for(item) for item in of(fresh, SERVER).values())
    installed = of(fresh, f"{DYNAMIC}K3sServer")
    assert [waits_for(installed[role]) for role in ROLES] == [set(), {"control"}, {"control-2"}]
    assert [installed[role].inputs["member"]["first"] for role in ROLES] == [True, False, False]
    assert waits_for(of(fresh, f"{DYNAMIC}K3sAgent")["worker-1"]) == set(ROLES)
    assert waits_for(of(fresh, f"{DYNAMIC}ClusterIdentity")["cluster"]) == set(ROLES)
    assert {item.inputs["labels"]["role"] for name, item in of(fresh, SERVER).items() if name in ROLES} == {
        "control"
    }


def test_servers_that_exist_change_one_by_one(defaults):
    settings = read_settings(configured(defaults, controlCount="3", workerCount="1"))
    found = rollout_order(settings, {*ROLES, "worker-1"})
    assert found == {"control-2": ["control"], "control-3": ["control-2"], "worker-1": ROLES}
    # one that was deleted comes at once
    assert rollout_order(settings, {"control", "control-3"}) == {"control-3": ["control-2"]}


@pytest.mark.parametrize("existing", [(), ("control",), ROLES, ("control-2",)])
def test_another_type_powers_off_no_server_before_the_others_are_checked(three, existing):
    found = of(three(existing=existing), f"{DYNAMIC}ServerState")
    # the only one would take the cluster with it, although others come
    recreated = "control-2" in existing
    for role in ROLES:
        assert ("types" not in found[role].inputs) is recreated, role


def test_a_control_server_leaves_before_its_k3s_is_installed_again_unless_all_goes(three):
    registered = three()
    for role, item in of(registered, f"{DYNAMIC}K3sServer").items():
        assert item.options.deletedWith.endswith("SharedSecret::k3s-token"), role
        # also by the flag --replace
        assert item.options.deleteBeforeReplace, role
    gone_with_one = [
        item.name
        for item in registered
        if item.options.deletedWith.endswith("Server::control") and item.name not in ("control", "ccm-image")
    ]
    assert gone_with_one == []


@pytest.mark.parametrize("remain", [True, False])
def test_the_first_leaves_as_long_as_others_are_in_the_cluster(declared_with, remain):
    existing = {"control", "worker-1", *(["control-3"] if remain else [])}
    registered = declared_with(existing, controlCount="1")
    first = of(registered, f"{DYNAMIC}K3sServer")["control"]
    assert first.options.deletedWith.endswith("k3s-token" if remain else "Server::control")
    member = (
        {"node": "ccm-from-scratch-control", "first": True, "labels": first.inputs["leaver"]["labels"]}
        if remain
        else None
    )
    assert first.inputs.get("leaver") == member
    assert not first.inputs.get("member")
    agent = of(registered, f"{DYNAMIC}Membership")["worker-1"]
    assert agent.options.deletedWith.endswith("k3s-token" if remain else "Server::control")
    # no check can notice it after they have left
    again = {name: value for name, value in first.inputs.items() if name not in ("leaver", "drain_seconds")}
    assert not K3sServerProvider().diff("1", first.inputs, again).changes
    assert not K3sServerProvider().diff("1", again, first.inputs).changes


def test_a_member_guard_is_declared_before_its_control_server_joins(three):
    registered = three()
    guards, installed = of(registered, f"{DYNAMIC}Vote"), of(registered, f"{DYNAMIC}K3sServer")
    assert set(guards) == {"control-2", "control-3"}
    for before, role in itertools.pairwise(ROLES):
        depends = installed[role].options.dependencies
        assert any(urn.endswith(f"Vote::{role}") for urn in depends)
        # one that has not joined has no others to ask, and they leave one by one
        assert waits_for(guards[role]) == {before}
        assert guards[role].options.deletedWith.endswith("SharedSecret::k3s-token")
        assert guards[role].inputs["member"] == installed[role].inputs["member"]
        assert "private_key" in guards[role].secrets


@pytest.mark.parametrize(("changed", "replaces"), [("server_id", ["server_id"]), ("host_key", [])])
def test_only_another_server_has_another_member_guard(changed, replaces):
    state = {"server_id": "1", "private_ip": "10.0.0.2", "host_key": "H", "drain_seconds": 60}
    result = EtcdMemberGuardProvider().diff("1", state, {**state, changed: "9"})
    assert (result.changes, result.replaces) == (True, replaces)
    assert not EtcdMemberGuardProvider().diff("1", state, {**state, "drain_seconds": 0}).changes


def test_what_is_in_the_cluster_reaches_it_by_every_control_server(three):
    registered = three()
    for kind in ("Membership", "Departure", "ReadyNodes", "PodNetwork", "Kubeconfig", "Sweep", "ReadyAgain"):
        for item in of(registered, DYNAMIC + kind).values():
            assert set(item.inputs["others"]) == {"control-2", "control-3"}, kind
    assert set(of(registered, f"{DYNAMIC}PodNetwork")) == {*ROLES, "worker-1"}
    assert set(of(registered, f"{DYNAMIC}K3sAgent")["worker-1"].inputs["controls"]) == set(ROLES)
    nodes = of(registered, f"{DYNAMIC}ReadyNodes")["nodes"].inputs["nodes"]
    assert len(nodes) == 4
    assert len(of(registered, f"{DYNAMIC}ImportedImage")) == 3


def test_no_placement_group_is_too_full(declared_with):
    registered = declared_with(controlCount="5", workerCount="12")
    groups = Counter(item.inputs["placementGroupId"] for item in of(registered, SERVER).values())
    assert sorted(groups.values()) == [3, 4, 10]


def test_control_servers_are_distributed_over_the_locations(declared_with, defaults):
    locations = '["nbg1", "fsn1", "hel1"]'
    registered = declared_with(controlCount="5", workerCount="1", controlLocations=locations)
    found = {name: item.inputs["location"] for name, item in of(registered, SERVER).items()}
    assert found.pop("worker-1") == defaults["ccm-from-scratch:location"]
    assert [found[role] for role in sorted(found)] == ["nbg1", "fsn1", "hel1", "nbg1", "fsn1"]
