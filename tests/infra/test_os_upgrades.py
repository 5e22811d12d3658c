import datetime as dt
import json
import subprocess
import zoneinfo

import pytest
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.addons import security_updates
from ccm_pulumi.addons.autoscaler import cluster_config
from ccm_pulumi.addons.kured import daemon_set
from ccm_pulumi.cluster.drain import EXCLUDED
from ccm_pulumi.config.reboot_window import DAYS, RebootWindow, parse_window
from tests.infra.infra_settings import configured, problems_of, read_settings

WINDOW = {"days": ["sun", "sat"], "start": "02:00", "end": "05:00", "timeZone": "Europe/Berlin"}
SCRIPT = security_updates.script()


def within(defaults, window=WINDOW, **more):
    return configured(defaults, osUpgrades=json.dumps(window), **more)


def test_the_window_is_read(defaults):
    window = RebootWindow(("sat", "sun"), "02:00", "05:00", "Europe/Berlin")
    assert read_settings(within(defaults)).os_upgrades == window
    assert read_settings(defaults).os_upgrades is None


@pytest.mark.parametrize(
    ("wrong", "keys"),
    [
        ({"days": []}, {"days"}),
        ({"days": "sat"}, {"days"}),
        ({"days": ["sat", "saturday"]}, {"days"}),
        ({"days": [["sat"]]}, {"days"}),
        ({"start": "2:00"}, {"start"}),
        ({"start": "24:00"}, {"start"}),
        ({"end": 1320}, {"end"}),
        ({"timeZone": "Berlin"}, {"timeZone"}),
        ({"timeZone": "../etc/passwd"}, {"timeZone"}),
        ({"timeZone": ["UTC"]}, {"timeZone"}),
        ({"days": ["x"], "start": "", "end": None, "timeZone": 1}, {"days", "start", "end", "timeZone"}),
    ],
)
def test_each_wrong_part_is_named(defaults, wrong, keys):
    assert set(problems_of(within(defaults, {**WINDOW, **wrong}))) == {f"osUpgrades.{key}" for key in keys}


def test_what_is_missing_is_named(defaults):
    assert set(problems_of(within(defaults, {"days": ["sat"]}))) == {
        f"osUpgrades.{key}" for key in ("start", "end", "timeZone")
    }
    assert set(problems_of(within(defaults, ["sat"]))) == {"osUpgrades"}


def test_what_it_needs_of_the_stack_is_named(defaults):
    said = problems_of(within(defaults, drainSeconds="0", kubeconfigPath="Pulumi.yaml"))
    assert set(said) == {"drainSeconds", "kubeconfigPath"}


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-11-21T01:00:00+00:00", True),  # a Saturday; in Berlin it is an hour later
        ("2026-11-21T00:59:59+00:00", False),
        ("2026-11-21T03:59:59+00:00", True),
        ("2026-11-21T04:00:00+00:00", False),
        ("2026-11-20T02:00:00+00:00", False),
        ("2026-07-05T00:30:00+00:00", True),  # a Sunday in summer
    ],
)
def test_when_the_window_is_open(now, is_open):
    window = RebootWindow(("sat", "sun"), "02:00", "05:00", "Europe/Berlin")
    assert window.is_open(dt.datetime.fromisoformat(now)) is is_open


times = st.times().map(lambda time: time.strftime("%H:%M"))


@given(
    days=st.lists(st.sampled_from(DAYS), min_size=1),
    bounds=st.tuples(times, times),
    zone=st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime"})),
)
def test_a_window_is_read_or_refused(days, bounds, zone):
    start, end = bounds
    window, problems = parse_window({"days": days, "start": start, "end": end, "timeZone": zone}, "k")
    if start < end:
        assert window is not None
        assert set(window.days) == set(days)
        assert list(window.days) == sorted(window.days, key=DAYS.index)
        assert not problems
    else:
        assert window is None
        assert [problem.key for problem in problems] == ["k.end"]


def test_with_it_nothing_else_changes(declared_with):
    def others(**changes):
        return {
            (item.type, item.name): {*item.inputs}
            for item in declared_with(**changes)
            if not item.name.startswith("kured") and "SecurityUpdates" not in item.type
        }

    assert others(osUpgrades=json.dumps(WINDOW)) == others()


def flags(command):
    return dict(word.split("=", 1) for word in command[1:])


def test_kured_reboots_one_server_at_a_time_within_the_window(declared_with):
    registered = declared_with(osUpgrades=json.dumps(WINDOW), drainSeconds="90")
    (daemons,) = [item for item in registered if item.type == "kubernetes:apps/v1:DaemonSet"]
    assert daemons.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    (container,) = daemons.inputs["spec"]["template"]["spec"]["containers"]
    said = flags(container["command"])
    assert said["--reboot-days"] == "sat,sun"
    assert (said["--start-time"], said["--end-time"]) == ("02:00", "05:00")
    assert said["--time-zone"] == "Europe/Berlin"
    assert said["--drain-timeout"] == "90s"
    assert (said["--concurrency"], said["--lock-ttl"]) == ("1", "0")
    metadata = daemons.inputs["metadata"]
    assert (said["--ds-namespace"], said["--ds-name"]) == (metadata["namespace"], metadata["name"])


def test_a_server_that_needs_a_reboot_leaves_its_load_balancers_and_comes_back():
    spec = daemon_set("kured:1", RebootWindow(("sat",), "02:00", "05:00", "UTC"), 300)["template"]["spec"]
    (container,), (volume,) = spec["containers"], spec["volumes"]
    said = flags(container["command"])
    before, after = (said[f"--{when}-reboot-node-labels"].split("=") for when in ("pre", "post"))
    assert before[0] == after[0] == EXCLUDED
    assert after[1] == "false"
    assert before[1] != "false"
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    inside = said["--reboot-sentinel"]
    assert inside.replace(mount["mountPath"], volume["hostPath"]["path"]) == "/var/run/reboot-required"
    assert spec["tolerations"] == [{"operator": "Exists"}]  # control servers, and pools with taints


def test_servers_of_the_autoscaler_install_them_by_themselves(defaults):
    pools = {"pools": json.dumps([{"name": "a", "max": 2}]), "cloudProviderName": "hcloud"}

    def begins(raw):
        settings = read_settings(raw)
        file = json.loads(cluster_config(settings, ["10.0.0.2"], "TOKEN", []))
        return file["nodeConfigs"]["ccm-from-scratch--a"]["cloudInit"]

    without = begins(configured(defaults, **pools))
    assert begins(within(defaults, **pools)) == without + SCRIPT
    subprocess.run(["sh", "-n"], input=without + SCRIPT, text=True, check=True, timeout=60)


@pytest.fixture
def server(tmp_path):
    """A root file system in which the script runs. Its apt-get records its arguments."""
    (tmp_path / "etc/apt/apt.conf.d").mkdir(parents=True)
    (tmp_path / "usr/bin").mkdir(parents=True)
    programs(tmp_path / "bin", **{"apt-get": f'echo "$DEBIAN_FRONTEND $*" >> {tmp_path}/calls'})
    return tmp_path


def run(server):
    there = SCRIPT.replace("/etc/apt", f"{server}/etc/apt").replace("/usr/bin/", f"{server}/usr/bin/")
    sh(there, f"{server}/bin:/bin:/usr/bin")


def test_the_package_is_installed_only_where_it_is_missing(server):
    run(server)
    calls = (server / "calls").read_text()
    assert "install -y unattended-upgrades" in calls
    assert all(line.startswith("noninteractive ") for line in calls.splitlines())
    (server / "usr/bin/unattended-upgrade").touch()
    (server / "calls").unlink()
    run(server)
    assert not (server / "calls").exists()
    (file,) = (server / "etc/apt/apt.conf.d").iterdir()
    assert 'APT::Periodic::Unattended-Upgrade "1";' in file.read_text()
    assert 'Unattended-Upgrade::Automatic-Reboot "false";' in file.read_text()
