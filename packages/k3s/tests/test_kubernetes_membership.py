import base64
import json
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin import bootstrap, pki, registration
from k3s_standin.api import ApiError
from k3s_standin.control_plane import ControlPlane, EtcdMember
from k3s_standin.datastore import REMOVED, Datastore, client_urls
from k3s_standin.errors import K3sError
from k3s_standin.etcd import STALL_SECONDS, Learners, Member, MembershipError, plan_join
from k3s_standin.options import server_options
from k3s_standin.pki import Pki
from k3s_standin.supervisor import StrangerError, Supervisor
from k3s_standin.token import Token, authority_hash
from tests.ports import free_port


def member(number, **changes):
    name, address = f"m{number}-0000000{number}", f"https://10.0.0.{number}"
    found = Member(str(number), name, (f"{address}:2380",), (f"{address}:2379",), False)
    return replace(found, **changes)


def test_a_server_that_was_added_and_never_started_is_not_added_again_but_a_second_node_is_refused():
    plan = plan_join([member(2), member(3, name="", clients=())], "m3-00000003", "https://10.0.0.3:2380")
    assert not plan.add
    assert plan.cluster.endswith(",m3-00000003=https://10.0.0.3:2380")
    with pytest.raises(MembershipError, match="duplicate node name found"):
        plan_join([member(2)], "m2-ffffffff", "https://10.0.0.9:2380")


@given(st.sets(st.integers(2, 99), min_size=1, max_size=7), st.integers(2, 99))
def test_initial_cluster_has_every_member_once(numbers, own):
    me = member(own)
    plan = plan_join([member(number) for number in sorted(numbers)], me.name, me.peers[0])
    everyone = [f"{one.name}={one.peers[0]}" for one in map(member, numbers | {own})]
    assert sorted(plan.cluster.split(",")) == sorted(everyone)
    assert plan.add == (own not in numbers)


def test_joining_uses_voting_members():
    members = [member(2), member(3, learner=True), member(4), member(5, clients=())]
    assert client_urls(members, "10.0.0.4") == ["https://10.0.0.2:2379"]


class Leader:
    """An etcd whose only learner never catches up."""

    def __init__(self):
        self.list = [member(2), member(3, learner=True)]

    def leads(self):
        return True

    def members(self):
        return self.list

    def promote(self, _member):
        return False

    def remove(self, gone):
        self.list.remove(gone)


def test_a_learner_that_never_catches_up_is_removed_after_five_minutes():
    etcd, clock = Leader(), [0.0]
    learners = Learners(etcd, lambda: clock[0])
    learners.look()
    clock[0] = STALL_SECONDS
    learners.look()
    assert len(etcd.list) == 2
    clock[0] += 1
    learners.look()
    assert [one.node for one in etcd.list] == ["m2"]


def started(store):
    """As if etcd had run."""
    (store.folder / "member" / "wal").mkdir(parents=True)


def test_a_server_keeps_its_kind_of_datastore(tmp_path):
    alone, first = Datastore(tmp_path / "a" / "etcd"), Datastore(tmp_path / "b" / "etcd")
    assert alone.name("m1", joins=False, managed=False) == ""
    name = first.name("m1", joins=False, managed=True)
    assert name.startswith("m1-")
    assert not first.initialized
    started(first)
    assert first.initialized
    assert first.name("m1", joins=False, managed=False) == name
    assert first.name("m1", joins=True, managed=False) == name


def test_data_of_a_single_server_is_not_kept_when_joining(tmp_path):
    store = Datastore(tmp_path / "etcd")
    started(store)
    assert store.name("m1", joins=True, managed=False)
    assert not store.initialized
    assert len(list(tmp_path.glob("etcd-old-*"))) == 1


def test_a_removed_member_starts_with_new_data(tmp_path):
    store = Datastore(tmp_path / "etcd")
    name = store.name("m1", joins=True, managed=False)
    started(store)
    store.bury("the disk is full")
    assert store.name("m1", joins=True, managed=False) == name
    store.bury(f'{{"level":"warn","error":"{REMOVED}"}}')
    assert store.name("m1", joins=True, managed=False) != name
    assert not store.initialized


def plane(folder):
    addresses = ("127.0.0.1", "127.0.0.1", "10.42.0.0/16", "10.43.0.0/16")
    more = {"encryption": folder / "encryption.json", "member": EtcdMember("m1-1", "127.0.0.1")}
    return ControlPlane(folder, Pki(folder / "tls"), *addresses, **more)


CRITICAL = server_options({}, "m1", "10.0.0.2").critical


@pytest.fixture
def first(tmp_path):
    made = plane(tmp_path / "first")
    made.pki.ensure(("127.0.0.1",))
    made.encryption.write_text("a key")
    return made


@pytest.fixture
def serve(first):
    stops = []

    def start(files=lambda: bootstrap.pack(first), members=lambda: [member(2)]):
        port = free_port()
        servers = registration.Servers("servers", CRITICAL, files, members)
        answers = registration.Registration(first.pki, "agents", None, None, servers)
        stops.append(registration.serve(answers, "127.0.0.1", port))
        return f"https://127.0.0.1:{port - 1}"

    yield start
    for stop in stops:
        stop()


def asked(url, password="servers", user="server", authority=None):
    return Supervisor(url, Token(password, authority), user)


def test_a_server_that_joins_gets_the_authorities_and_makes_its_own_certificates(first, serve, tmp_path):
    second = plane(tmp_path / "second")
    second.pki.ensure(("127.0.0.1",))  # as if it had been the only one

    bootstrap.fetch(second, asked(serve()), CRITICAL)
    second.pki.ensure(("127.0.0.1",))

    for name, file in bootstrap.files(first).items():
        assert bootstrap.files(second)[name].read_bytes() == file.read_bytes()
    keys = [one.pki.service_account_public_key.read_bytes() for one in (first, second)]
    assert keys[0] == keys[1]
    asked(serve()).request("GET", "/db/info", second.pki.server_authority.certificate)


def test_interrupted_joins_discard_own_certificates(first, tmp_path):
    second = plane(tmp_path / "second")
    second.pki.ensure(("127.0.0.1",))  # as if it had been the only one
    own = second.pki.server_authority.certificate.read_bytes()
    stops = second.pki.folder / "stops.json"
    stops.mkdir()  # a folder can't be forgotten as a file is
    with pytest.raises(OSError, match="stops"):
        bootstrap.unpack(second, bootstrap.pack(first))
    assert second.pki.server_authority.certificate.read_bytes() == own
    stops.rmdir()

    bootstrap.unpack(second, bootstrap.pack(first))
    second.pki.ensure(("127.0.0.1",))

    authority, served = first.pki.server_authority.certificate, second.pki.certificate(pki.SERVING)
    command = ["openssl", "verify", "-CAfile", str(authority), str(served)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("password", "user", "status"), [("agents", "node", 403), ("agents", "server", 401), ("", "server", 401)]
)
def test_the_agents_token_is_refused_for_servers(first, serve, password, user, status):
    url = serve()
    for path in (bootstrap.PATH, bootstrap.MEMBERS):
        with pytest.raises(K3sError, match=str(status)):
            asked(url, password, user).request("GET", path, first.pki.server_authority.certificate)


def test_joins_are_refused_before_writing(serve, tmp_path):
    second = plane(tmp_path / "second")
    with pytest.raises(K3sError, match=r"--cluster-cidr is 10.9.0.0/16 on this server and 10.42"):
        bootstrap.fetch(second, asked(serve()), {**CRITICAL, "cluster-cidr": "10.9.0.0/16"})
    with pytest.raises(K3sError, match=r"server-bootstrap: 400: .*--cluster-init"):
        bootstrap.fetch(second, asked(serve(files=None)), CRITICAL)  # it has no etcd
    assert list(second.pki.folder.iterdir()) == []


def test_without_a_quorum_members_are_not_ready(first, serve):
    def none():
        raise ApiError(503, "no leader")

    with pytest.raises(K3sError, match="503: etcd is not ready: no leader"):
        asked(serve(members=none)).request("GET", "/db/info", first.pki.server_authority.certificate)


def test_another_clusters_token_is_not_sent(serve):
    with pytest.raises(StrangerError, match="token CA hash does not match"):
        asked(serve(), authority=authority_hash(b"another")).authority()


def test_the_files_are_under_k3s_names_and_secrets_are_not_readable_by_others(first, tmp_path):
    packed = json.loads(bootstrap.pack(first))
    assert base64.b64decode(packed["EncryptionConfig"]["Content"]) == b"a key"
    second = plane(tmp_path / "second")
    bootstrap.unpack(second, json.dumps(packed).encode())
    for file in bootstrap.files(second).values():
        assert file.stat().st_mode & 0o077 == (0o044 if file.suffix == ".crt" else 0)
    del packed["ServiceKey"]
    with pytest.raises(K3sError, match="didn't send the bootstrap data ServiceKey"):
        bootstrap.unpack(second, json.dumps(packed).encode())
