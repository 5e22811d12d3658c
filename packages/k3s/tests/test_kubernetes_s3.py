import hashlib

import pytest

from k3s_standin.errors import K3sError, UsageError
from k3s_standin.flags import parse
from k3s_standin.options import server_options
from k3s_standin.reset import found
from k3s_standin.s3 import Request, S3Error, S3Options, authorization
from k3s_standin.snapshot_command import request_of
from k3s_standin.snapshots import SnapshotOptions, Snapshots, table
from tests.object_store import running

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
KEYS = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
EMPTY = hashlib.sha256(b"").hexdigest()
PUT = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "digest", "signature"),
    [
        (
            "GET", "/test.txt", {}, {"range": "bytes=0-9"}, EMPTY,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test%24file.text", {},
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}, PUT,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET", "/", {"lifecycle": ""}, {}, EMPTY,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET", "/", {"max-keys": "2", "prefix": "J"}, {}, EMPTY,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_signatures_of_the_documentation(method, path, query, headers, digest, signature):  # noqa: PLR0917
    common = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": digest,
        "x-amz-date": "20130524T000000Z",
    }
    request = Request(method, path, query, {**common, **headers}, digest)
    assert authorization(request, *KEYS).endswith(f"Signature={signature}")


class Member:
    """An etcd whose content is a text."""

    def status(self):
        return {}

    def snapshot(self):
        return iter([b"all ", b"of it"])


@pytest.fixture
def store():
    with running("backups", "ME") as started:
        yield started


def at(store, **more):
    return S3Options("backups", "ME", "secret", endpoint=store.address, insecure=True, **more)


def test_snapshots_go_to_both_and_the_newest_stay(store, tmp_path):
    times = iter(range(1_700_000_000, 1_700_000_100))
    options = SnapshotOptions(tmp_path, retention=9, s3=at(store, folder="of/it", retention=2))
    taken = Snapshots(Member(), "m1", options, now=lambda: next(times))
    saved = taken.answer({"operation": "save", "name": ["mine"], "retention": 0})
    assert saved == {"created": ["mine-m1-1700000000"] * 2, "deleted": []}
    assert store.objects == {"of/it/mine-m1-1700000000": b"all of it"}
    for _ in range(3):
        taken.take_scheduled()
    kept = ["etcd-snapshot-m1-1700000002", "etcd-snapshot-m1-1700000003", "mine-m1-1700000000"]
    assert sorted(store.objects) == [f"of/it/{name}" for name in kept]
    lines = table(taken.answer({"operation": "list"})).splitlines()
    assert sum("s3://backups/of/it/" in line for line in lines) == 3
    assert sum("file://" in line for line in lines) == 4
    gone = taken.answer({"operation": "delete", "name": [kept[0]]})
    assert gone == {"deleted": [kept[0]] * 2}
    assert f"of/it/{kept[0]}" not in store.objects


def test_snapshots_are_pruned_by_name(tmp_path):
    times = iter(range(1_700_000_000, 1_700_000_100))
    taken = Snapshots(Member(), "m1", SnapshotOptions(tmp_path, retention=2), now=lambda: next(times))
    for _ in range(3):
        taken.take_scheduled()
    pruned = taken.answer({"operation": "prune", "name": ["etcd-snapshot"], "retention": 1})
    assert pruned == {"deleted": ["etcd-snapshot-m1-1700000001"]}
    assert [path.name for path in tmp_path.iterdir()] == ["etcd-snapshot-m1-1700000002"]


def test_places_that_are_refused(tmp_path):
    taken = Snapshots(Member(), "m1", SnapshotOptions(tmp_path))
    with pytest.raises(K3sError, match="path traversal not allowed"):
        taken.answer({"operation": "delete", "name": ["../etcd/name"]})
    with pytest.raises(K3sError, match="stat /missing: no such file"):
        taken.answer({"operation": "save", "name": ["x"], "dir": "/missing"})


def test_local_snapshots_without_a_working_store(store, tmp_path):
    taken = Snapshots(Member(), "m1", SnapshotOptions(tmp_path, s3=at(store)), now=lambda: 1_700_000_000)
    store.full = True
    assert taken.answer({"operation": "save", "name": ["a"]})["created"] == ["a-m1-1700000000"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"bucket": "none"}, "bucket none does not exist"),
        ({"access_key": "YOU"}, "failed to test for existence of bucket backups: HEAD .* 403"),
        ({"endpoint": "127.0.0.1:9"}, "failed to initialize S3 client: failed to test for existence"),
    ],
)
def test_errors_of_a_store(store, tmp_path, changed, says):
    taken = Snapshots(Member(), "m1", SnapshotOptions(tmp_path, s3=at(store)))
    with pytest.raises(K3sError, match=says) as caught:
        taken.answer({"operation": "save", "name": ["a"], "s3": changed})
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


FLAGS = [
    "--etcd-s3", "--etcd-s3-bucket=backups", "--etcd-s3-access-key=ME", "--etcd-s3-secret-key=secret",
    "--etcd-s3-insecure", "--etcd-snapshot-retention=7",
]  # fmt: skip


def test_flags_of_server_and_command(store, tmp_path):
    endpoint = f"--etcd-s3-endpoint={store.address}"
    words = [*FLAGS, endpoint, f"--etcd-snapshot-dir={tmp_path}"]
    reset = ["--cluster-reset", "--cluster-reset-restore-path=taken"]
    options = server_options(parse("server", [*words, *reset]).values, "m1", "10.0.0.2")
    assert options.snapshots.s3 == at(store, retention=7)
    assert "secret" not in repr(options.snapshots.s3)
    store.objects["taken"] = b"all of it"
    path = found(options)
    assert (path, path.read_bytes()) == (tmp_path / "taken", b"all of it")
    assert path.stat().st_mode & 0o777 == 0o600
    store.objects.clear()
    with pytest.raises(S3Error, match="404"):
        found(options)
    with pytest.raises(UsageError, match="s3 bucket name was not set"):
        server_options(parse("server", ["--etcd-s3"]).values, "m1", "10.0.0.2")
    asked = parse("etcd-snapshot", ["--s3", "--s3-bucket=b", "ls"], variables={"AWS_ACCESS_KEY_ID": "ME"})
    listed = {"operation": "list", "s3": {"bucket": "b", "access_key": "ME"}}
    assert request_of(asked.arguments, asked.values) == listed
