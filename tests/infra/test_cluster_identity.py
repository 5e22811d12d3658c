import json

import pulumi
import pytest
from control_servers import DYNAMIC, FLAGS, PROPS, SNAPSHOTS, of
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc

from ccm_pulumi.cluster.identity import ClusterIdentityProvider
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider, is_another_cluster
from ccm_pulumi.lib.errors import AnotherClusterError, InfraError


def as_given(inputs):
    """Properties as the SDK hands them to a provider, which makes something of its own of unknown ones."""
    sent = struct_pb2.Struct()
    sent.update(inputs)
    return rpc.deserialize_properties(sent, True)


def as_sent(inputs):
    """Properties as a provider's answer brings them to the engine."""
    return {
        name: rpc.UNKNOWN if isinstance(value, pulumi.output.Unknown) else value
        for name, value in inputs.items()
    }


class Run:
    """What an engine does with a ClusterIdentity, run by run."""

    def __init__(self):
        self.provider = ClusterIdentityProvider()
        self.inputs, self.outputs, self.replaced = {}, None, 0

    def up(self, text, *, several, known=True, **more):
        """A run; returns the cluster's name as the program and its preview see it."""
        given = as_given({"text": text if known else rpc.UNKNOWN, "several": several, **more})
        checked = as_sent(self.provider.check(dict(self.inputs), given).inputs)
        if self.outputs is not None:
            found = self.provider.diff("cluster", self.outputs, as_given(checked))
            if not found.changes:
                self.inputs = checked if known else self.inputs
                return self.outputs["generation"]
            assert found.replaces
            checked = as_sent(self.provider.check({}, given).inputs)
            self.replaced += known
        if known:
            self.inputs, self.outputs = checked, self.provider.create(dict(checked)).outs
        return checked["generation"]

    def goes_with_a_server(self):
        """Whether the engine takes it for one that can't live without the first server."""
        unknown = as_given({**self.inputs, "text": rpc.UNKNOWN})
        return bool(self.provider.diff("cluster", self.outputs, unknown).replaces)


def test_a_cluster_outlives_each_of_its_servers_but_not_the_only_one():
    run = Run()
    assert run.up("one", several=False) == "one"
    assert run.goes_with_a_server()
    assert run.up("two", several=False, known=False) == rpc.UNKNOWN
    assert run.up("two", several=False) == "two"
    assert run.replaced == 1
    assert run.up("two", several=True) == "two"
    assert not run.goes_with_a_server()
    assert run.up("three", several=True, known=False) == "two"
    assert run.up("three", several=True) == "two"
    assert run.up("three", several=False) == "two"
    assert run.goes_with_a_server()
    assert run.up("three", several=False) == "two"
    assert run.replaced == 1
    assert run.up("four", several=False) == "four"
    assert run.replaced == 2


def test_a_cluster_outlives_its_only_server_where_it_comes_out_of_a_snapshot():
    run = Run()
    run.up("one", several=False, snapshots=True)
    assert not run.goes_with_a_server()
    assert run.up("two", several=False, known=False, snapshots=True, restores=True) == "one"
    assert run.up("two", several=False, snapshots=True, restores=True) == "one"
    assert run.up("two", several=False, snapshots=True) == "one"
    assert run.replaced == 0
    # without a word of a snapshot it is a new one
    assert run.up("three", several=False, snapshots=True) == "three"
    assert run.replaced == 1


def test_a_snapshot_is_of_the_cluster_that_it_was():
    made = {"clusterName": "a", "clusterCidr": "b"}
    provider = ClusterIdentityProvider()
    given_before = {"text": "t", "several": False, "snapshots": True, "settings": made}
    before = provider.check({}, as_given(given_before)).inputs
    news = as_given({**given_before, "restores": True, "settings": {**made, "clusterCidr": "c"}})
    with pytest.raises(AnotherClusterError, match="clusterCidr"):
        provider.check(before, news)
    server = {**PROPS, "snapshots": FLAGS}
    named = {**server, "restore_from": "taken"}
    with pytest.raises(AnotherClusterError, match="clusterCidr"):
        K3sServerProvider().diff("1", server, {**named, "cluster_cidr": "10.0.0.0/9"})
    with pytest.raises(InfraError, match="the token of k3s servers"):
        K3sServerProvider().diff("1", server, {**named, "token": "another"})
    assert K3sServerProvider().diff("1", server, {**named, "server_id": "8"}).replaces == ["server_id"]


def test_three_that_were_all_lost_have_begun_another_cluster():
    run = Run()
    assert run.up("one", several=True, begun=True) == "one"
    assert run.up("one", several=True, begun=True) == "one"
    # the first of them joined the others
    assert run.up("two", several=True, begun=False) == "one"
    assert run.up("three", several=True, begun=rpc.UNKNOWN, known=False) == "one"
    assert run.up("three", several=True, begun=True, restores=True) == "one"
    assert run.replaced == 0
    assert run.up("four", several=True, begun=True) == "four"
    assert run.replaced == 1


def test_what_is_in_a_cluster_goes_with_it_and_members_with_its_only_server(declared_with):
    for wanted, gone_with in (
        ({}, "K3sServer::control"),
        ({"etcdSnapshots": json.dumps(SNAPSHOTS)}, "SharedSecret::k3s-token"),
    ):
        declared = declared_with(**wanted)
        deployment = of(declared, "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"]
        assert deployment.options.deletedWith.endswith("ClusterIdentity::cluster")
        agents = of(declared, f"{DYNAMIC}K3sAgent").values()
        assert all(bool(agent.inputs.get("several")) is bool(wanted) for agent in agents)
        members = of(declared, f"{DYNAMIC}Membership").values()
        assert all(member.options.deletedWith.endswith(gone_with) for member in members)


@given(runs=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_the_name_stays_exactly_as_long_as_a_server_stays(runs):
    run, before = Run(), None
    for text, several in runs:
        name = run.up(str(text), several=several)
        if before is not None:
            same = before[1] or before[0] == text
            assert (name == before[2]) is (same or before[2] == str(text))
        assert run.up(str(text), several=several) == name
        before = (text, several, name)


@pytest.mark.parametrize("key", ["clusterName", "clusterCidr", "serviceCidr", "subnetCidr"])
@pytest.mark.parametrize("several", [True, False])
def test_what_several_control_servers_have_is_not_made_another_cluster(key, several):
    provider, made_with = ClusterIdentityProvider(), {"clusterName": "a", "subnetCidr": "b", key: "old"}
    before = provider.check({}, as_given({"text": "t", "several": True, "settings": made_with})).inputs
    # the server may be replaced, lost or attached again in the same run, or others go
    news = as_given({"text": rpc.UNKNOWN, "several": several, "settings": made_with})
    assert provider.check(before, news).inputs["generation"] == "t"
    other = as_given({**news, "text": rpc.UNKNOWN, "settings": {**made_with, key: "new"}})
    with pytest.raises(AnotherClusterError, match=rf"{key}: 'new' is not possible .* back to 'old'"):
        provider.check(before, other)
    # with one control server it is another cluster; earlier versions noted nothing
    provider.check({**before, "several": False}, other)
    provider.check({name: value for name, value in before.items() if name != "settings"}, other)


def test_the_program_says_what_the_cluster_is_made_with(three):
    identity = of(three(cloudProviderName="hcloud"), f"{DYNAMIC}ClusterIdentity")["cluster"]
    assert set(identity.inputs["settings"]) == {"clusterName", "clusterCidr", "serviceCidr", "subnetCidr"}
    assert identity.inputs["provider"] == "hcloud"


def test_an_agent_stays_in_the_cluster_whose_first_server_is_another():
    was = {"cluster": "one", "server_ip": "10.0.0.2"}
    assert is_another_cluster(was, {**was, "server_ip": "10.0.0.9"})
    assert not is_another_cluster(was, {**was, "server_ip": "10.0.0.9", "several": True})
    assert is_another_cluster(was, {**was, "cluster": "two", "several": True})


def test_the_provider_ids_of_a_cluster_keep_their_prefix():
    provider = ClusterIdentityProvider()
    given_before = {"text": "t", "several": False, "provider": "ccm-from-scratch"}
    before = provider.check({}, as_given(given_before)).inputs
    other = as_given({**given_before, "provider": "hcloud"})
    with pytest.raises(InfraError, match=r"'hcloud' is not possible"):
        provider.check(before, other)
    provider.check(before, as_given(given_before))  # what the message advises
    # another cluster has other Nodes; earlier versions noted nothing
    provider.check(before, {**other, "text": "another"})
    provider.check({**before, "provider": None}, other)
