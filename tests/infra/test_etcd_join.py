import pytest
from control_servers import PROPS, SEVERAL, cloud_server, peer
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.etcd_join import (
    DOWN,
    NONE,
    OTHER,
    READY,
    SILENT,
    PeerAnswer,
    Start,
    ask,
    question,
    read_answer,
    start_of,
)
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider, identity_of, server_script
from ccm_pulumi.cluster.peers import Peer, labels_of, peers
from ccm_pulumi.lib.errors import AnotherClusterError, ConfigurationError, UnknownClusterError

answers = st.lists(
    st.builds(
        PeerAnswer,
        st.integers(2, 9).map(peer),
        st.sampled_from([READY, DOWN, NONE, OTHER, SILENT]),
        st.booleans(),
        reason=st.just("no SSH connection"),
    ),
    max_size=4,
)


def decided(said, *, begins):
    try:
        return start_of("c-1", said, begins=begins)
    except UnknownClusterError as error:
        return error


@given(said=answers, begins=st.booleans())
def test_no_server_begins_a_cluster_that_may_exist(said, begins):
    found, all_said = decided(said, begins=begins), {one.has for one in said}
    ready = [one for one in said if one.has == READY]
    if ready:
        assert found == Start(ready[0].peer.private, ready[0].encrypted)
    elif begins and all_said <= {NONE}:
        assert found == Start()
    else:
        assert isinstance(found, UnknownClusterError)
        for one in said:
            assert one.has == NONE or f"{one.peer.name}: " in str(found)
        assert ("no SSH connection" in str(found)) is (SILENT in all_said)


@pytest.mark.parametrize(
    ("has", "said"),
    [
        ({"note": "mine", "db": "", "ready": "", "encryption": ""}, (READY, True)),
        ({"note": "mine", "db": "", "ready": ""}, (READY, False)),
        ({"note": "mine", "db": "", "encryption": ""}, (DOWN, True)),
        ({"note": "mine", "encryption": ""}, (NONE, True)),
        ({"note": "another", "db": "", "ready": ""}, (OTHER, False)),
        ({"note": "another", "db": ""}, (OTHER, False)),
        ({"note": "another"}, (NONE, False)),
        ({"db": "", "ready": ""}, (OTHER, False)),
        ({"db": ""}, (NONE, False)),
        ({}, (NONE, False)),
    ],
)
def test_what_a_server_says_it_has(tmp_path, monkeypatch, has, said):
    files = {"etcd_join.NOTE": "note", "etcd_join.DATASTORE": "db", "k3s_scripts.ENCRYPTION": "encryption"}
    for name, path in files.items():
        monkeypatch.setattr(f"ccm_pulumi.cluster.{name}", tmp_path / path)
    for path, content in has.items():
        (tmp_path / path).write_text(content)
    tells = '[ "$1" = --version ] && echo "k3s version v1.36.3+k3s1 (abc)"'
    path = programs(tmp_path, k3s=f"{tells} || [ -e {tmp_path}/ready ]")
    answer = read_answer(peer(2), sh(question("mine"), path).stdout)
    assert (answer.has, answer.encrypted) == said
    assert answer.version == "v1.36.3+k3s1"


def test_a_server_without_a_note_gets_one_when_it_is_changed():
    assert identity_of(SEVERAL) in server_script(SEVERAL, Start(), cluster=None)


def test_one_of_several_does_not_leave_for_other_ranges():
    provider = K3sServerProvider()
    olds = SEVERAL
    with pytest.raises(AnotherClusterError, match=r"clusterCidr: '10\.0\.0\.0/9' is not possible"):
        provider.diff("", olds, {**olds, "cluster_cidr": "10.0.0.0/9"})
    alone = PROPS
    assert provider.diff("", alone, {**alone, "cluster_cidr": "10.0.0.0/9"}).replaces == ["cluster_cidr"]


async def test_who_is_off_is_not_waited_for():
    said = await ask([peer(2, runs=False), peer(3, public="")], "no key", lambda _: "mine")
    assert sorted((one.peer.server_id, one.has, one.reason) for one in said) == [
        ("2", SILENT, "the server is off"),
        ("3", SILENT, "the server has no public address, and the cluster has no NAT server"),
    ]


def test_the_others_as_the_cloud_has_them():
    off = cloud_server(9, places={5: "10.5.0.9", 7: "10.7.0.9"}, public="203.0.113.9", status="off")
    assert peers([off, cloud_server(4), cloud_server(6, places={}, public="")], "4", 7) == [
        Peer("6", "c-6", "", "", runs=True),
        Peer("9", "c-9", "203.0.113.9", "10.7.0.9", runs=False),
    ]
    assert labels_of({"cluster": "a", "stack": "b", "role": "control", "team": "c"}) == {
        "cluster": "a",
        "stack": "b",
    }


def test_flags_of_each_control_server():
    assert "--cluster-init" not in server_script(PROPS, Start(), cluster="c")
    assert "--server" not in server_script(PROPS, Start(), cluster="c")
    begun = server_script(SEVERAL, Start(), cluster="c")
    assert "--cluster-init" in begun
    assert "INSTALL_K3S_SKIP_START" not in begun
    joined = server_script(SEVERAL, Start("10.0.0.8"), cluster="c")
    assert "--server=https://10.0.0.8:6443" in joined
    assert "--cluster-init" not in joined
    assert "INSTALL_K3S_SKIP_START=true" in joined
    # an upgrade changes nothing of how it came, and the installer starts what runs
    upgraded = server_script(SEVERAL, Start("10.0.0.8"), cluster=None)
    assert "--server=https://10.0.0.8:6443" in upgraded
    assert "INSTALL_K3S_SKIP_START" not in upgraded
    # one that is alone again needs nobody any more
    assert "--server" not in server_script(PROPS, Start("10.0.0.8"), cluster=None)


@pytest.mark.parametrize("encrypted", [True, False])
def test_who_joins_encrypts_what_the_others_do(encrypted):
    script = server_script(SEVERAL, Start("10.0.0.8", encrypted), cluster="c")
    assert ("secrets-encryption: true" in script) is encrypted


def test_who_joins_gets_the_k3s_of_the_others_unless_the_settings_name_another():
    def asks_for(**release):
        start = start_of("c-1", [PeerAnswer(peer(2), READY, version="v1.36.2+k3s1")], begins=False)
        script = server_script({**SEVERAL, **release}, start, cluster="c")
        return [line for line in script.splitlines() if "INSTALL_K3S_" in line and "SKIP" not in line]

    assert asks_for(channel="stable") == ["export INSTALL_K3S_VERSION=v1.36.2+k3s1"]
    assert asks_for(channel="v1.36") == ["export INSTALL_K3S_VERSION=v1.36.2+k3s1"]
    # it is the first of those that the change of the channel makes new
    assert asks_for(channel="v1.37") == ["export INSTALL_K3S_CHANNEL=v1.37"]
    assert asks_for(version="v1.36.3+k3s1") == ["export INSTALL_K3S_VERSION=v1.36.3+k3s1"]
    # one that begins, and one that is changed, has nobody to go by
    begun = server_script({**SEVERAL, "channel": "stable"}, Start(), cluster="c")
    assert "export INSTALL_K3S_CHANNEL=stable" in begun


def test_the_only_control_server_does_not_leave_etcd():
    K3sServerProvider().delete("1", {"server_id": "1", "private_ip": "10.0.0.2"})


def test_the_only_one_that_is_wanted_asks_those_that_remain(monkeypatch):
    monkeypatch.delenv("HCLOUD_TOKEN", raising=False)
    props = {"server_id": "1", "private_ip": "10.0.0.2", "leaver": {"node": "c-1", "labels": {}}}
    with pytest.raises(ConfigurationError, match="hcloud:token"):
        K3sServerProvider().delete("1", props)
