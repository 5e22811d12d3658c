import time
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin import cron
from k3s_standin.api import ApiClient
from k3s_standin.datastore import Datastore
from k3s_standin.errors import K3sError, UsageError
from k3s_standin.etcd import Etcd
from k3s_standin.flags import parse
from k3s_standin.options import server_options
from k3s_standin.registration import Servers
from k3s_standin.reset import checked, refuse
from k3s_standin.snapshot_command import request_of
from k3s_standin.snapshots import Snapshot, SnapshotOptions, Snapshots, read_snapshot, surplus

NOW = datetime(2026, 11, 22, 19, 30, 5)  # noqa: DTZ001 -- a Sunday, in the machine's own time


@pytest.mark.parametrize(
    ("spec", "due"),
    [
        ("0 */12 * * *", "2026-11-23 00:00:00"),
        ("*/5 * * * *", "2026-11-22 19:35:00"),
        ("30 19 * * *", "2026-11-23 19:30:00"),
        ("0 3 1 * *", "2026-12-01 03:00:00"),
        ("0 3 * * mon-FRI", "2026-11-23 03:00:00"),
        ("15,45 20/2 * * ?", "2026-11-22 20:15:00"),
        # neither day is a star: one is enough
        ("0 0 24 * 5", "2026-11-24 00:00:00"),
        ("0 0 29 feb *", "2028-02-29 00:00:00"),
        ("@daily", "2026-11-23 00:00:00"),
        ("@weekly", "2026-11-29 00:00:00"),
        ("@every 1h30m", "2026-11-22 21:00:05"),
        ("@every 1.5h500ms", "2026-11-22 21:00:05"),
        ("@every 0s", "2026-11-22 19:30:06"),
        ("0 0 31 feb *", "None"),
    ],
)
def test_when_a_schedule_is_due(spec, due):
    assert str(cron.parse(spec).after(NOW)) == due


@pytest.fixture
def in_berlin(monkeypatch):
    """This process' own time is Berlin's, by rules that need no file."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("spec", "due"),
    [
        ("CRON_TZ=UTC 0 3 * * *", "2026-11-23 04:00:00"),
        ("TZ=UTC 0 3 * * *", "2026-11-23 04:00:00"),
        ("TZ=  0 3 * * *", "2026-11-23 04:00:00"),
        ("TZ=UTC   0 19 * * 0", "2026-11-22 20:00:00"),
        ("TZ=Local 0 3 * * *", "2026-11-23 03:00:00"),
        ("CRON_TZ=UTC @daily", "2026-11-23 01:00:00"),
        ("CRON_TZ=UTC @every 6h", "2026-11-23 01:30:05"),
        ("CRON_TZ=UTC 0 0 31 feb *", "None"),
    ],
)
def test_a_schedule_may_begin_with_its_time_zone(spec, due):
    assert str(cron.parse(spec).after(NOW)) == due


@pytest.mark.parametrize(
    "spec", ["TZ=UTC", "TZ=../etc 0 3 * * *", "TZ=UTC TZ=UTC 0 3 * * *", "", "* * * *", "60 * * * *",
             "5-1 * * * *", "*/0 * * * *", "@Daily", "@every", "@every 1", "* * 0 * *", "* * * * 7"],
)  # fmt: skip
def test_invalid_schedules(spec):
    with pytest.raises(ValueError, match=r".+"):
        cron.parse(spec)
    with pytest.raises(UsageError, match="--etcd-snapshot-schedule-cron"):
        options("--etcd-snapshot-schedule-cron", spec)


def options(*words):
    return server_options(parse("server", words).values, "m1", "10.0.0.2")


def test_a_server_takes_snapshots_as_k3s_does():
    usual = options().snapshots
    assert (usual.name, usual.retention, usual.schedule) == ("etcd-snapshot", 5, "0 */12 * * *")
    assert usual.folder == Path("/var/lib/rancher/k3s/server/db/snapshots")
    words = ("--etcd-snapshot-name=a", "--etcd-snapshot-retention=9", "--etcd-snapshot-dir=/b")
    said = options(*words).snapshots
    assert (said.name, said.retention, said.folder) == ("a", 9, Path("/b"))
    assert options("--etcd-disable-snapshots").snapshots.schedule == ""


def asked(*words, settings=None):
    parsed = parse("etcd-snapshot", words, settings=settings)
    return request_of(parsed.arguments, parsed.values)


def test_requests_to_the_server():
    assert asked("save") == {"operation": "save", "name": ["on-demand"], "retention": 0}
    named = asked("save", "--name", "before", "--dir=/d", "--snapshot-compress")
    assert named == {"operation": "save", "name": ["before"], "dir": "/d", "compress": True, "retention": 0}
    assert asked("ls") == asked("list") == asked("l") == {"operation": "list"}
    assert asked("delete", "a", "b") == {"operation": "delete", "name": ["a", "b"]}
    pruned = asked("--etcd-snapshot-retention=2", "prune", "--name=etcd-snapshot")
    assert pruned == {"operation": "prune", "name": ["etcd-snapshot"], "retention": 2}
    # of the servers' file only what is about snapshots
    file = {"cluster-init": True, "etcd-snapshot-dir": "/file"}
    assert asked("ls", settings=file) == {"operation": "list", "dir": "/file"}


@pytest.mark.parametrize(
    ("read", "words", "says"),
    [
        (options, ["--cluster-reset-restore-path=/x"], "--cluster-reset required with --cluster-reset-"),
        (options, ["--cluster-reset", "--server=https://10.0.0.9:6443", "--token=t"], "server URL is set"),
        (asked, [], "one of save, ls"),
        (asked, ["delete"], "no snapshots given for removal"),
        (asked, ["save", "--cluster-init"], "no flag --cluster-init, but k3s server has"),
    ],
)
def test_words_that_are_refused(read, words, says):
    with pytest.raises(UsageError, match=says):
        read(*words)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 50_000,
        b"7",
        b'{"operation": "list", "retention": 1e400}',
        b'{"operation": "list", "dir": "/\\ud800"}',
    ],
)
def test_invalid_requests_are_refused(body):
    etcd = Etcd(ApiClient.__new__(ApiClient))
    servers = Servers("", {}, None, tuple, Snapshots(etcd, "m1", SnapshotOptions()))
    answer = servers.post(body)
    assert answer.status == 500
    assert answer.body.decode()


NAMES = st.builds("{}-m{}-{}".format, st.sampled_from(["etcd-snapshot", "on-demand"]), st.integers(1, 3),
                  st.integers(0, 10**10))  # fmt: skip


@given(st.lists(NAMES, unique=True), st.integers(0, 6))
def test_retention_keeps_the_newest_of_a_name(names, retention):
    found = [Snapshot(name, Path(name), 1, int(name.rpartition("-")[2])) for name in names]
    doomed = surplus(found, "etcd-snapshot", retention)
    ours = [one for one in found if one.name.startswith("etcd-snapshot")]
    left = [one for one in ours if one not in doomed]
    assert {*doomed} <= {*ours}
    assert len(left) == (min(len(ours), retention) if retention else len(ours))
    assert all(kept.created >= gone.created for kept in left for gone in doomed)


def test_a_snapshot_is_as_old_as_its_name_says(tmp_path):
    (tmp_path / "a-m1-1700000000.zip").write_text("x")
    assert read_snapshot(tmp_path / "a-m1-1700000000.zip").created == 1700000000
    (tmp_path / "copied").write_text("xy")
    copied = read_snapshot(tmp_path / "copied")
    assert (copied.created, copied.size) == (int((tmp_path / "copied").stat().st_mtime), 2)


def test_restoring_a_missing_snapshot_or_twice(tmp_path):
    with pytest.raises(K3sError, match="etcd: snapshot path does not exist: "):
        checked(tmp_path / "none")
    with pytest.raises(K3sError, match="must be a file, not a directory"):
        checked(tmp_path)
    store = Datastore(tmp_path / "etcd")
    with pytest.raises(K3sError, match="contains no etcd data"):
        refuse(store)
    (tmp_path / "etcd" / "member" / "wal").mkdir(parents=True)
    store.rename("m1")
    refuse(store)
    store.reset_flag.touch()
    with pytest.raises(K3sError, match="previously reset"):
        refuse(store)
