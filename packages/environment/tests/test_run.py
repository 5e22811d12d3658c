import socket
import sys
from dataclasses import replace

import pytest

from sandbox import takeover
from sandbox.commands import run
from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import open_site
from tests import child_processes

KUBECTL = """
cd "$(dirname "$0")"
case "$*" in
  *" get deployments "*) echo '{"items": [{"spec": {"replicas": '"$(cat replicas)"'}}]}' ;;
  *" get pods "*|*" get nodes "*|*" get nodes,services "*) echo '{"items": []}' ;;
  *" scale "*) echo "$*" | sed 's/.*--replicas=\\([0-9]*\\).*/\\1/' | tee -a scaled > replicas ;;
  *) exit 1 ;;
esac
"""
NETWORK = {"name": "hcloud", "key": "network"}
POD = {
    "containers": [
        {
            "args": ["--cloud-provider=ccm-from-scratch", "--cluster-cidr=10.1.0.0/16"],
            "env": [
                {"name": "HCLOUD_TOKEN_FILE", "value": "/etc/hcloud/token"},
                {"name": "HCLOUD_ENDPOINT", "value": "http://169.254.169.254/v1"},
                {"name": "HCLOUD_NETWORK", "valueFrom": {"secretKeyRef": NETWORK}},
            ],
            "volumeMounts": [{"name": "hcloud", "mountPath": "/etc/hcloud"}],
        }
    ],
    "volumes": [{"name": "hcloud", "secret": {"secretName": "hcloud"}}],
}
CONTENTS = {("secrets", "hcloud"): {"token": "the-secret-token", "network": "my-network"}}


@pytest.fixture
def site(tmp_path):
    root = tmp_path / "clone"
    root.mkdir()
    (root / "kubeconfig.local.yaml").touch()
    return open_site(root, {"XDG_CACHE_HOME": str(tmp_path)}, list, lambda _: True)


@pytest.fixture
def built(tmp_path):
    child_processes.script(tmp_path / "bin/kubectl", KUBECTL)
    (tmp_path / "bin/replicas").write_text("2")
    return Toolchain(tmp_path)


def scaled(built):
    file = built.bin / "scaled"
    return file.read_text().split() if file.exists() else []


def wanted(site):
    return run.here(POD, CONTENTS, site)


def test_settings_of_run(site, monkeypatch):
    monkeypatch.setenv("HCLOUD_TOKEN", "of-another-shell")
    found = wanted(site)
    assert "--cluster-cidr=10.1.0.0/16" in found.command
    assert f"--kubeconfig={site.kubeconfig}" in found.command
    assert found.variables["HCLOUD_NETWORK"] == "my-network"
    assert found.variables["HCLOUD_ENDPOINT"] == site.endpoint
    assert found.variables["HCLOUD_TOKEN"] == "the-secret-token"
    assert "the-secret-token" not in " ".join(found.command)


def test_settings_for_an_editor(site):
    found = run.with_options(wanted(site), debug=True, editor=5679)
    assert found.command[:8] == [
        sys.executable,
        *("-Xfrozen_modules=off", "-m", "debugpy", "--listen", "127.0.0.1:5679", "--wait-for-client", "-m"),
    ]
    assert found.command[-2:] == ["--v=4", "--leader-elect=false"]


def test_an_editors_port():
    for port in (-1, 0, 1 << 16):
        with pytest.raises(SandboxError, match=f"--editor {port}: give a TCP port"):
            run.check_editor(port)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SandboxError, match=f"--editor {port}: another program"):
            run.check_editor(port)


def test_the_clusters_ccm_is_restored(site, built):
    said = []

    def fail():
        with takeover.taken(site, built, said.append):
            assert scaled(built) == ["0"]
            assert takeover.active(site)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert scaled(built) == ["0", "2"]
    assert not takeover.active(site)
    assert said == ["• the CCM in the cluster runs again"]


def test_two_runs_are_refused(site, built):
    with takeover.taken(site, built, print):
        with pytest.raises(SandboxError, match="is already running"), takeover.taken(site, built, print):
            pass
        with pytest.raises(SandboxError, match="before it is tried"):
            takeover.refuse(site, "it is tried")
        assert "shows the CCM's log" in takeover.why_no_pod(site)
        takeover.heal(site, built, pytest.fail)
        assert scaled(built) == ["0"]
    takeover.refuse(site, "it is tried")
    assert takeover.why_no_pod(site) == ""


KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from sandbox import takeover
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import open_site

site = open_site(Path(sys.argv[1]), {"XDG_CACHE_HOME": sys.argv[2]}, list, lambda _: True)
with takeover.taken(site, Toolchain(Path(sys.argv[2])), print) as noted:
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    noted(child.pid)
    print(child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_command_after_a_kill_restores_the_ccm(site, built):
    command = [sys.executable, "-c", KILLED, str(site.root), str(site.cache.parent)]
    done = child_processes.run(command)
    assert done.returncode == -9, done.stderr
    assert "was killed. './dev up' starts the cluster's CCM again" in takeover.why_no_pod(site)
    assert scaled(built) == ["0"]
    said = []
    takeover.heal(site, built, said.append)
    assert scaled(built) == ["0", "2"]
    assert said
    assert takeover.processes.identify(int(done.stdout)) is None
    takeover.heal(site, built, pytest.fail)


@pytest.mark.parametrize(("before", "meanwhile"), [("2", "1"), ("0", "0")], ids=["changed", "stopped"])
def test_other_changes_of_replicas_stay(site, built, before, meanwhile):
    (built.bin / "replicas").write_text(before)
    with takeover.taken(site, built, pytest.fail):
        (built.bin / "replicas").write_text(meanwhile)
    assert scaled(built) == ["0"]


CCM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
from pathlib import Path
with Path(sys.argv[1]).open("a") as log:
    log.write("started ")
if len(sys.argv) > 2:
    sys.exit(7)
while True:
    time.sleep(0.05)
"""


VARIABLES = {"PATH": "/usr/bin:/bin"}


@pytest.mark.slow
@pytest.mark.parametrize("watch", [True, False], ids=["watched", "not-watched"])
def test_restarts_after_changes(tmp_path, watch):
    source, log = tmp_path / "ccm/a.py", tmp_path / "log"
    source.parent.mkdir()
    source.touch()
    texts = iter(["x = (", "x = 1\n"])
    said, started, looks = [], [], []

    def sources():
        runs = len(log.read_text().split()) if log.exists() else 0
        if not looks or not runs:  # what is ended before it has begun leaves nothing to count
            looks.append(runs)
        elif (text := next(texts, None)) is not None:
            source.write_text(text)
        elif runs == (2 if watch else 1):
            raise KeyboardInterrupt
        return [source]

    ccm = run.Wanted([sys.executable, "-c", CCM, str(log)], VARIABLES)
    assert run.run_until_ended(tmp_path, ccm, started.append, sources, said.append, watch=watch) == 0
    assert len(started) == (2 if watch else 1)
    assert [takeover.processes.identify(pid) for pid in started] == [None] * len(started)
    if watch:
        assert "was never closed" in said[0]
        assert said[1:] == ["• a source file has changed: restarting"]
    else:
        assert len(said) == 2
        assert "--watch" in said[0]


def test_a_ccm_that_ends_by_itself_starts_again_after_a_change_if_it_is_watched(tmp_path):
    source, said = tmp_path / "a.py", []
    source.touch()

    def say(text):
        said.append(text)
        if "ended with exit code 7" in text:
            source.write_text(f"x = {len(said)}\n")
        if len(said) == 3:
            raise KeyboardInterrupt

    ends = run.Wanted([sys.executable, "-c", CCM, str(tmp_path / "log"), "now"], VARIABLES)
    assert run.run_until_ended(tmp_path, ends, lambda _: None, lambda: [source], say, watch=True) == 0
    assert (tmp_path / "log").read_text().split() == ["started", "started"]
    assert run.run_until_ended(tmp_path, ends, print, list, print, watch=False) == 7


def test_a_program_of_the_readers_runs_in_place_of_the_ccm(site, tmp_path):
    (tmp_path / "main.py").touch()
    (tmp_path / "token").write_text("the-secret-token\n")
    file = replace(wanted(site), variables={"HCLOUD_TOKEN_FILE": str(tmp_path / "token")})
    found = run.with_options(run.with_program(file, tmp_path / "main.py"), debug=False, editor=None)
    assert found.command[:2] == [sys.executable, str(tmp_path / "main.py")]
    assert "--cloud-provider=ccm-from-scratch" in found.command
    assert found.variables["HCLOUD_TOKEN"] == "the-secret-token"
    assert tmp_path / "main.py" in run.sources_of(site.root, tmp_path / "main.py")()
    with pytest.raises(SandboxError, match=r"nothing\.py: the file doesn't exist"):
        run.sources_of(site.root, site.root / "nothing.py")
