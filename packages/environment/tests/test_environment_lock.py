import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from ccm_pulumi.config.pools import MAX_WORKERS
from hetzner_emulator.errors import EmulatorError
from sandbox import conformance_lock, environment_lock, stack_settings, takeover
from sandbox.dev import parse, perform
from sandbox.environment import STACKS
from sandbox.errors import EnvironmentBusy, SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import open_clone, open_site
from tests.child_processes import run, script

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A clone of which nothing is claimed yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    (folder / "infra").mkdir()
    return folder


@pytest.fixture
def clone(root):
    return open_clone(root, os.environ)


def typed(root, *words):
    name, arguments = parse(list(words))
    return perform(name, arguments, root)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--workers", "-1"], f"--workers -1: .* from 0 to {MAX_WORKERS}"),
        (["up", "--workers", "100"], "--workers 100"),
        (["up", "--k3s", "/nowhere"], "--k3s /nowhere"),
        (["up", "--kubernetes", "9.9"], "--kubernetes"),
        (["up", "--backend", "hollow", "--internet"], "--internet"),
        (["serve", "--port", "0"], "^--port 0: "),
        (["serve", "--port", "65536"], "^--port 65536: "),
        (["serve", "--rate-limit", "-1"], "^--rate-limit -1: "),
        (["serve", "--k3s", "/nowhere"], "^--k3s /nowhere: "),
        *((["serve", f"--token={text}"], "^--token: ") for text in ("", "a b", "ü", "a" * 256, "a\n")),
        (["serve", "--backend", "records", "--internet"], "--internet"),
    ],
)
def test_invalid_arguments_claim_nothing(root, words, said):
    with pytest.raises((SandboxError, EmulatorError), match=said):
        typed(root, *words)
    assert not list(root.parent.glob("cache/*/sites.json"))
    assert not (root / ".sandbox/claim.json").exists()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"ccm-from-scratch:workerCount": "many"}, "workerCount"),
        ({"ccm-from-scratch:k3sVersion": "v9.9.9+k3s1"}, "k3sVersion"),
        ("none", "mapping"),
    ],
)
def test_invalid_settings_claim_nothing(root, config, said):
    for stack in STACKS.values():
        (root / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": config}))
    with pytest.raises(SandboxError, match=rf"Pulumi\.\w+\.yaml.*{said}|{said}"):
        typed(root, "up")
    assert not list(root.parent.glob("cache/*/sites.json"))


def test_an_invalid_setting_can_be_overridden(root, clone):
    stack = next(iter(STACKS.values()))
    path = root / f"Pulumi.{stack}.yaml"
    path.write_text(yaml.safe_dump({"config": {"ccm-from-scratch:workerCount": "many"}}))
    stack_settings.check(clone, stack, ["workerCount"])
    with pytest.raises(SandboxError, match=f"{path.name}: .*workerCount.*must be of type integer"):
        stack_settings.check(clone, stack)


@pytest.mark.parametrize("name", ["up", "down"])
def test_changes_need_an_exclusive_lock(root, clone, name):
    with (
        environment_lock.changing(clone, "up"),
        pytest.raises(EnvironmentBusy, match=f"'./dev up', process {os.getpid()}.*'./dev {name}'"),
    ):
        typed(root, name)
    assert not list(root.parent.glob("cache/*/sites.json"))


def test_using_the_environment_needs_a_shared_lock(clone):
    refused = pytest.raises(EnvironmentBusy, match=r"another command .*'\./dev down'")
    with environment_lock.needing(clone, "load"), environment_lock.needing(clone, "run"), refused:
        environment_lock.changing(clone, "down").__enter__()
    with environment_lock.changing(clone, "deploy"), pytest.raises(SandboxError, match=r"'\./dev deploy'"):
        environment_lock.needing(clone, "load").__enter__()
    with environment_lock.changing(clone, "up"):
        pass


def test_locks_of_killed_commands_are_free(clone, root):
    code = """
import os, signal, sys
from pathlib import Path
from sandbox import environment_lock
from sandbox.site import open_clone
with environment_lock.changing(open_clone(Path(sys.argv[1]), os.environ), "up"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run([sys.executable, "-c", code, str(root)], cwd=ROOT).returncode == -signal.SIGKILL
    with environment_lock.needing(clone, "load"), pytest.raises(EnvironmentBusy, match=r"^another command"):
        environment_lock.changing(clone, "down").__enter__()


@pytest.mark.parametrize("lock", [takeover.idle, conformance_lock.alone], ids=["run", "conformance"])
def test_down_waits_for_commands_in_the_environment(root, clone, lock, request):
    own = request.node.callspec.id
    with lock(clone), pytest.raises(SandboxError, match=rf"'\./dev {own}' .* before you"):
        typed(root, "down")
    assert not list(root.parent.glob("cache/*/sites.json"))


# A cluster in which a person has cordoned one of two nodes with control planes.
KUBECTL = """
cd "$(dirname "$0")"
shift  # the kubeconfig
spec() { echo '{"metadata": {"name": "'$1'"}, "spec": {"unschedulable": '$2'}}'; }
case "$*" in
  "get nodes "*) echo '{"items": ['; spec control $([ -e cordoned ] && echo true || echo false)
    echo ,; spec held true; echo ']}' ;;
  "cordon "*) echo "$*" >> calls; touch cordoned ;;
  "uncordon "*) echo "$*" >> calls; rm cordoned ;;
esac
"""
CORDONED = """
import os, signal, sys
from pathlib import Path
from sandbox import conformance_lock
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import open_site
site = open_site(Path(sys.argv[1]), os.environ, list, lambda _: True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
with conformance_lock.alone(site), conformance_lock.cordoned(site, Toolchain(Path(sys.argv[2])), print):
    os.kill(os.getpid(), int(sys.argv[3]))
    signal.pause()
"""


@pytest.fixture
def built(tmp_path, root):
    (root / "kubeconfig.local.yaml").touch()
    toolchain = Toolchain(tmp_path / "toolchain")
    script(toolchain.bin / "kubectl", KUBECTL)
    return toolchain


def calls(built):
    return (built.bin / "calls").read_text().splitlines()


def ended_by(number, root, built):
    command = [sys.executable, "-c", CORDONED, str(root), str(built.directory), str(int(number))]
    return run(command, cwd=ROOT).returncode


def test_a_run_of_tests_that_is_ended_lets_nodes_take_pods_again(root, built):
    assert ended_by(signal.SIGTERM, root, built) == 3
    assert calls(built) == ["cordon control", "uncordon control"]
    assert not (root / ".sandbox/cordoned.json").exists()


def test_after_a_killed_run_of_tests_the_next_command_lets_nodes_take_pods_again(root, clone, built):
    assert ended_by(signal.SIGKILL, root, built) == -signal.SIGKILL
    site = open_site(root, os.environ, list, lambda _: True)
    with conformance_lock.alone(site):
        conformance_lock.heal(site, built, pytest.fail)  # tests run again: theirs
    assert calls(built) == ["cordon control"]
    said = []
    conformance_lock.heal(site, built, said.append)
    assert (calls(built)[1:], said) == (["uncordon control"], ["• control: uncordoned"])
    conformance_lock.heal(site, built, pytest.fail)
