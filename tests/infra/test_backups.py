import json
import re
import subprocess
from datetime import datetime

import pytest
import yaml
from control_servers import DYNAMIC, FLAGS, PROPS, SEVERAL, SNAPSHOTS
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import problems_of, read_settings

from ccm_pulumi.cluster import k3s_scripts
from ccm_pulumi.cluster.etcd_join import Start
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider, server_script
from ccm_pulumi.config import k3s
from ccm_pulumi.config.etcd_snapshots import Backups, parse_backups, settings_file
from ccm_pulumi.lib.errors import ConfigurationError
from k3s_standin import cron

S3 = {
    "endpoint": "s3.example.com",
    "bucket": "backups",
    "accessKey": "ME",
    "secretKey": "hush",
    "insecure": True,
}


def test_a_single_control_server_without_snapshots_has_none_to_begin_from(defaults, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("x")
    wanted = {**defaults, "ccm-from-scratch:restoreFrom": str(taken)}
    said = problems_of(wanted)
    assert list(said) == ["restoreFrom"]
    assert "also set ccm-from-scratch:etcdSnapshots" in said["restoreFrom"]
    assert read_settings({**wanted, "ccm-from-scratch:controlCount": "3"}).restore_from == str(taken)
    with_snapshots = {**wanted, "ccm-from-scratch:etcdSnapshots": json.dumps(SNAPSHOTS)}
    assert read_settings(with_snapshots).restore_from == str(taken)
    assert read_settings(with_snapshots).etcd_snapshots == Backups(FLAGS)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"schedule": "0 0 * * *; reboot"}, r"\.schedule: .* is not possible: use the five fields of cron"),
        ({"schedule": "0 25 * * *"}, r"\.schedule: '0 25 \* \* \*' .*; hour: 25 must be between 0 and 23"),
        ({"schedule": "0 0 31 feb,4 *"}, r"\.schedule: .*; none of the months in the schedule has this day"),
        ({"schedule": None}, r"\.schedule: is not set: use the five fields of cron"),
        ({"retention": 0}, r"\.retention: 0 is not possible: give a whole number from 1 to 999"),
        ({"retention": True}, r"\.retention: True is not possible: give a whole number"),
        ({"keep": 3}, r"\.keep: .* is not possible: there is no such key; allowed: retention, s3, schedule"),
        (["0 0 * * *"], ": .* is not possible: set one or more of the keys schedule, retention and s3"),
        ({"s3": "bucket"}, r"\.s3: '\(not shown\)' is not possible: set the keys endpoint, bucket"),
        ({"s3": None}, r"\.s3: is not set: set the keys endpoint, bucket"),
    ],
)
def test_invalid_settings_of_snapshots(defaults, said, why):
    changed = {"ccm-from-scratch:etcdSnapshots": json.dumps(said), "ccm-from-scratch:controlCount": "3"}
    with pytest.raises(ConfigurationError, match=f"ccm-from-scratch:etcdSnapshots{why}"):
        read_settings({**defaults, **changed})


def spans(least, most, *names):
    number = st.integers(least, most)
    text = number.map(str)
    pair = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    first = st.one_of(st.just("*"), text, pair, st.sampled_from(names or ["*"]))
    stepped = st.tuples(st.one_of(st.just("*"), text, pair), st.integers(1, 99)).map(
        lambda both: f"{both[0]}/{both[1]}"
    )
    return st.lists(st.one_of(first, stepped), min_size=1, max_size=3).map(",".join)


WEEKDAYS = spans(0, 6, "SUN", "mon-Fri")
SCHEDULES = st.tuples(spans(0, 59), spans(0, 23), spans(1, 28), spans(1, 12, "jan", "FEB-dec"), WEEKDAYS)


ODD = ["?", "", "-", "x", "99", "-1", "5-1", "*-2", "1,", "*/0", "1/x", "1/2/3"]
UNUSUAL = re.compile(r"\?|\*-")
"""k3s takes these, too; no schedule needs them."""


@given(SCHEDULES, st.integers(0, 4), st.sampled_from(ODD))
def test_no_schedule_passes_that_never_is_due(fields, at, odd):
    schedule = " ".join([*fields[:at], odd, *fields[at + 1 :]])
    found, problems = parse_backups({"schedule": schedule}, "k")
    try:
        due = cron.parse(schedule).after(datetime(2027, 1, 1))  # noqa: DTZ001
    except ValueError:
        due = None
    assert bool(found) is not bool(problems)
    assert bool(found) is (due is not None) or (problems and UNUSUAL.search(schedule))


@given(SCHEDULES.map(" ".join))
def test_a_schedule_that_k3s_takes_passes(schedule):
    found, problems = parse_backups({"schedule": schedule}, "k")
    assert problems == []
    assert found.flags == {"etcd-snapshot-schedule-cron": schedule}
    assert cron.parse(schedule).after(datetime(2027, 1, 1))  # noqa: DTZ001


def test_all_that_is_wrong_with_snapshots_is_said_at_once(defaults):
    said = json.dumps({"schedule": "daily", "retention": "many", "s3": {"bucket": "B", "region": {}}})
    found = problems_of({**defaults, "ccm-from-scratch:etcdSnapshots": said})
    parts = [key.removeprefix("etcdSnapshots.") for key in found]
    of_store = [f"s3.{part}" for part in ("endpoint", "bucket", "region", "accessKey", "secretKey")]
    assert parts == ["schedule", "retention", *of_store]


def test_flags_of_k3s_for_snapshots():
    script = server_script({**SEVERAL, "snapshots": FLAGS}, Start(), cluster="c")
    assert "'--etcd-snapshot-schedule-cron=0 */6 * * *' --etcd-snapshot-retention=9" in script
    assert "--etcd-snapshot" not in server_script({**SEVERAL, "snapshots": None}, Start(), cluster="c")


def test_a_single_control_server_has_etcd_for_snapshots_alone():
    for wanted in ({"snapshots": FLAGS}, {"store": {"etcd-s3": "true"}}):
        for cluster in ("c", None):
            assert "--cluster-init" in server_script({**PROPS, **wanted}, Start(), cluster=cluster)
    # one that joined others which have left since asks nobody
    again = server_script({**PROPS, "snapshots": FLAGS}, Start("10.0.0.9"), cluster=None)
    assert "--cluster-init" in again
    assert "--server=" not in again
    assert "--cluster-init" not in server_script({**PROPS, "snapshots": None}, Start(), cluster=None)


def test_only_the_first_server_restores_a_snapshot(tmp_path):
    (tmp_path / "taken").write_text("x")
    given = {**SEVERAL, "restore_from": str(tmp_path / "taken")}
    begins = server_script(given, Start(), cluster="c")
    assert "--cluster-init" in begins
    path = "--cluster-reset-restore-path=/root/ccm-from-scratch-snapshot --etcd-s3=false"
    assert f"--cluster-reset {path}" in begins
    named = server_script({**SEVERAL, "restore_from": "taken-1"}, Start(), cluster="c")
    assert "--cluster-reset-restore-path=taken-1 " in named
    assert "--etcd-s3=false" not in named
    assert begins.index("INSTALL_K3S_SKIP_START=true") < begins.index("--cluster-reset ")
    for start, cluster in ((Start("10.0.0.3"), "c"), (Start(), None)):
        assert "--cluster-reset" not in server_script(given, start, cluster=cluster)
    assert "--cluster-reset" not in server_script(SEVERAL, Start(), cluster="c")


def test_a_snapshot_that_is_named_changes_nothing_that_is_there():
    old = {"__provider": "p", **SEVERAL}
    diff = K3sServerProvider().diff("1", old, {**SEVERAL, "restore_from": "/a/snapshot", "snapshots": None})
    assert not diff.changes
    assert K3sServerProvider().diff("1", old, {**SEVERAL, "snapshots": FLAGS}).changes


def test_a_restoration_is_begun_once_and_gone_on_with(tmp_path):
    # Each command of the machine writes down that it was called.
    nodes = 'case "$*" in *"get nodes"*) echo node/c-1;; esac'
    scripts = {name: f'echo "{name} $*" >> {tmp_path}/calls\n{nodes}' for name in ("k3s", "systemctl")}
    path = programs(tmp_path / "bin", **scripts)
    folder, data = tmp_path / "etc", tmp_path / "db"
    (folder / "config.yaml.d").mkdir(parents=True)
    script = k3s_scripts.restore(["--cluster-init"], folder=str(folder))
    for place, here in (
        (k3s.DATASTORE, data),
        (k3s.SNAPSHOT, tmp_path / "taken"),
        ("/var/log/", f"{tmp_path}/"),
    ):
        script = script.replace(place, str(here))

    def run():
        (tmp_path / "calls").write_text("")
        subprocess.run(["sh", "-euc", script], env={"PATH": path}, check=True, timeout=60)
        return (tmp_path / "calls").read_text()

    first = run()
    assert "k3s server --cluster-init --cluster-reset" in first
    assert "k3s kubectl delete node/c-1 --wait=false" in first
    assert "delete secret --ignore-not-found c-1.node-password.k3s" in first
    assert first.rstrip().endswith("systemctl restart k3s")
    assert not list((folder / "config.yaml.d").iterdir())
    (data / "etcd").mkdir(parents=True)
    assert run() == ""
    (folder / "restoring").touch()
    assert run() == first


def with_s3(defaults, **changes):
    said = {"controlCount": "3", "etcdSnapshots": json.dumps({"s3": {**S3, **changes}})}
    return {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in said.items()}}


def test_settings_of_s3_are_in_a_file_that_only_root_can_read(defaults, tmp_path):
    wanted = read_settings(with_s3(defaults)).etcd_snapshots
    assert "hush" not in repr(wanted)
    settings = yaml.safe_load(settings_file(wanted.s3))
    assert settings == {
        "etcd-s3": True,
        "etcd-s3-endpoint": "s3.example.com",
        "etcd-s3-bucket": "backups",
        "etcd-s3-access-key": "ME",
        "etcd-s3-secret-key": "hush",
        "etcd-s3-insecure": True,
    }
    script = server_script({**SEVERAL, "store": wanted.s3}, Start(), cluster="c")
    assert "hush" not in "".join(line for line in script.splitlines() if "installer" in line)
    file = tmp_path / "etc" / "etcd-s3.yaml"

    def keep(content):
        sh(f"set -eu; umask 077\n{k3s_scripts.keep_store(content, str(file))}")

    for _ in range(2):
        keep(settings_file(wanted.s3))
        assert file.stat().st_mode & 0o777 == 0o600
        assert yaml.safe_load(file.read_text()) == settings
    for _ in range(2):
        keep("")
        assert not file.exists()


def test_k3s_restarts_for_another_store_and_for_a_removed_store(defaults):
    store = read_settings(with_s3(defaults)).etcd_snapshots.s3
    for had, has in ((False, store), (True, store), (True, None)):
        script = server_script({**SEVERAL, "store": has}, Start(), cluster=None, had_store=had)
        assert script.index("etcd-s3.yaml") < script.index("INSTALL_K3S_FORCE_RESTART=true")
    assert "etcd-s3" not in server_script(SEVERAL, Start(), cluster=None)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("bucket", ""),
        ("secretKey", "hush hush"),
        ("secretkey", "hush"),
        ("endpoint", "https://me:hush@x"),
        ("insecure", "hush"),
    ],
)
def test_a_wrong_store_is_reported_without_its_secrets(defaults, part, wrong):
    with pytest.raises(ConfigurationError, match=rf"etcdSnapshots\.s3\.{part}: .*not shown") as caught:
        read_settings(with_s3(defaults, **{part: wrong}))
    assert "hush" not in str(caught.value)


def test_a_misplaced_key_of_the_store_is_reported_without_its_secret(defaults):
    beside = {**defaults, "ccm-from-scratch:etcdSnapshots": json.dumps({"secretKey": "hush"})}
    with pytest.raises(ConfigurationError, match=r"etcdSnapshots\.secretKey: .*no such key") as caught:
        read_settings(beside)
    assert "hush" not in str(caught.value)


def test_a_snapshot_in_s3_is_named(defaults):
    key = "ccm-from-scratch:restoreFrom"
    assert read_settings({**with_s3(defaults), key: "etcd-snapshot-a-1"}).restore_from == "etcd-snapshot-a-1"
    for wanted in (with_s3(defaults), {**defaults, "ccm-from-scratch:controlCount": "3"}):
        with pytest.raises(ConfigurationError, match="restoreFrom"):
            read_settings({**wanted, key: "no/such; file"})


def test_the_state_keeps_what_opens_the_store_secret(declared_with):
    registered = declared_with(controlCount="3", etcdSnapshots=json.dumps({"s3": S3}))
    servers = [item for item in registered if item.type == f"{DYNAMIC}K3sServer"]
    assert len(servers) == 3
    assert all("store" in item.secrets and item.inputs["store"] for item in servers)
