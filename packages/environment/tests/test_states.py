import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pretended import pretended_sandbox
from rich.console import Console

from sandbox import pulumi, stack_settings
from sandbox.commands import up
from sandbox.console import Steps
from sandbox.environment import STACKS
from sandbox.errors import SandboxError
from sandbox.site import open_site, passphrase
from tests.child_processes import script

ROOT = Path(__file__).parents[3]
SERVER = {"type": "hcloud:index/server:Server", "urn": "urn:pulumi:hetzner::p::hcloud:index/server:Server::a"}

PULUMI = """
import time
try:
    print("began", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    print("all kept")
"""
DEV = """
import os, sys
from io import StringIO
from pathlib import Path
from sandbox import pulumi, site
clone = site.open_site(Path(sys.argv[1]), {"XDG_CACHE_HOME": sys.argv[2]}, list, lambda _: True)
pulumi.run(clone, os.environ, ["up"], "")
"""


@pytest.fixture
def clone(tmp_path):
    root = tmp_path / "clone"
    root.mkdir()
    (root / "Pulumi.yaml").write_text("name: ccm-from-scratch\nruntime: python\n")
    return open_site(root, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, list, lambda _: True)


def keep_state(site, stack, *resources, project="ccm-from-scratch"):
    folder = site.state / "pulumi/.pulumi/stacks" / project
    folder.mkdir(parents=True, exist_ok=True)
    state = {"version": 3, "checkpoint": {"latest": {"resources": list(resources)}}}
    (folder / f"{stack}.json").write_text(json.dumps(state))


def test_a_state_with_servers_elsewhere_is_not_removed(clone):
    keep_state(clone, "local", SERVER)
    stack = "pulumi:pulumi:Stack"
    keep_state(clone, "hetzner", {"type": stack, "urn": f"urn:pulumi:hetzner::p::{stack}::p-hetzner"})
    pulumi.refuse_to_lose(clone)
    keep_state(clone, "hetzner", SERVER)
    with pytest.raises(SandboxError, match=r"'hetzner' .* has 1 resources.*pulumi destroy --stack hetzner"):
        pulumi.refuse_to_lose(clone)
    keep_state(clone, "hetzner")
    keep_state(clone, "local", SERVER, project="mine")
    with pytest.raises(SandboxError, match=r"'local' of the project 'mine' has 1 resources"):
        pulumi.refuse_to_lose(clone)
    next(clone.state.rglob("hetzner.json")).write_text("{")
    with pytest.raises(SandboxError, match=r"hetzner\.json can't be read"):
        pulumi.refuse_to_lose(clone)


def test_an_environment_keeps_its_backend(clone):
    keep_state(clone, "local", SERVER, project="mine")
    assert up.choose(clone, "hollow").kind == "hollow"
    keep_state(clone, "hollow", SERVER)
    assert up.choose(clone, "auto").kind == "hollow"
    assert up.choose(clone, "hollow").kind == "hollow"
    with pytest.raises(SandboxError, match=r"--backend machines: .* with hollow; run './dev down' first"):
        up.choose(clone, "machines")


def test_a_sandbox_without_a_cluster_is_not_brought_up(clone):
    with (
        pretended_sandbox(clone, "records") as child,
        pytest.raises(SandboxError, match=rf"process {child.pid}, backend \w+\)"),
    ):
        up.choose(clone, "auto")


def lock(site, stack, pid, hostname=None):
    """A lock as the genuine CLI leaves it when it is killed."""
    folder = site.state / "pulumi/.pulumi/locks/organization/ccm-from-scratch" / stack
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "c52c2a3c-8d2b-4a6e-8f53-0c8d1c5a4f11.json"
    content = {"pid": pid, "username": "root", "hostname": hostname or socket.gethostname()}
    path.write_text(json.dumps(content | {"timestamp": "2026-11-21T23:57:29.123456789+01:00"}))
    return path


@pytest.fixture
def ended():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return child.pid


# What was asked of it, and an end as the CLI's.
CLI = """
[ "$1" != config ] || { echo "error: it is not a key" >&2; exit 1; }
[ "$1" != cancel ] || rm "$PULUMI_LOCK"
"""


@pytest.fixture
def command(clone, tmp_path, monkeypatch):
    """A CLI on PATH that only cancels."""
    program = script(tmp_path / "bin/pulumi", CLI)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    folder = clone.state / "pulumi/.pulumi/locks/organization/ccm-from-scratch/local"
    return {**os.environ, "PULUMI_LOCK": str(folder / "c52c2a3c-8d2b-4a6e-8f53-0c8d1c5a4f11.json")}


def test_the_lock_of_a_dead_process_is_removed(clone, command, ended, capfd):
    keep_state(clone, "local")
    path = lock(clone, "local", ended)
    screen = StringIO()
    pulumi.heal(clone, command, "local", Steps(Console(file=screen)))
    assert not path.exists()
    assert f"process {ended} of root@" in screen.getvalue()
    assert "Running 'pulumi cancel'" in screen.getvalue()
    assert capfd.readouterr().out == ""
    pulumi.heal(clone, command, "local", Steps(Console(file=(silent := StringIO()))))
    assert silent.getvalue() == ""


def test_incomplete_locks_are_removed(clone, command):
    keep_state(clone, "local")
    folder = clone.state / "pulumi/.pulumi/stacks/ccm-from-scratch"
    (folder / "local.json.attrs").write_text("")
    (folder / "hetzner.json.attrs").write_text("{}\n")
    pulumi.heal(clone, command, "local", Steps(Console(file=StringIO())))
    assert sorted(path.name for path in folder.iterdir()) == ["hetzner.json.attrs", "local.json"]


@pytest.mark.parametrize("hostname", [None, "another-machine"])
def test_a_lock_that_may_be_held_stays(clone, command, hostname, ended):
    pid = os.getpid() if hostname is None else ended
    path = lock(clone, "local", pid, hostname)
    remedy = "delete /.*json" if hostname is None else "pulumi cancel"
    with pytest.raises(SandboxError, match=rf"locked by process {pid} of root@.* wait until .*{remedy}"):
        pulumi.heal(clone, command, "local", Steps(Console(file=StringIO())))
    assert path.exists()


def sealed(phrase, text=b"pulumi", salt=b"12345678"):
    """A text as the CLI encrypts it."""
    nonce = b"123456789012"
    key = hashlib.pbkdf2_hmac("sha256", phrase.encode(), salt, 1_000_000, 32)
    content = AESGCM(key).encrypt(nonce, text, None)
    return "v1:" + ":".join(base64.b64encode(part).decode() for part in (nonce, content))


def salt_line(phrase, salt=b"12345678"):
    """As the CLI writes it with the first command on a stack."""
    return f"v1:{base64.b64encode(salt).decode()}:{sealed(phrase, salt=salt)}"


def salted(path, phrase):
    """Let the CLI have written its salt."""
    path.write_text(f"{path.read_text()}\nencryptionsalt: {salt_line(phrase)}\n")


@pytest.mark.parametrize("stack", STACKS.values())
def test_settings_of_a_stack_are_ignored_by_git(clone, stack):
    stack_settings.ensure(clone, stack)
    name = stack_settings.file_of(clone, stack).name
    assert not subprocess.run(["git", "ls-files", name], cwd=ROOT, capture_output=True, check=True).stdout
    assert subprocess.run(["git", "check-ignore", "--quiet", name], cwd=ROOT, check=False).returncode == 0
    stack_settings.remove(clone)
    assert sorted(path.name for path in clone.root.iterdir()) == [".sandbox", "Pulumi.yaml"]


def test_settings_stay_until_the_stack_is_removed(clone):
    stack_settings.ensure(clone, "local")
    path = stack_settings.file_of(clone, "local")
    salted(path, passphrase(clone))
    before = path.read_text()
    stack_settings.ensure(clone, "local")
    assert path.read_text() == before
    stack_settings.remove(clone)
    stack_settings.ensure(clone, "local")
    assert path.read_text() == (stack_settings.TEMPLATES / "local.yaml").read_text()


def test_a_salt_without_passphrase(clone):
    stack_settings.ensure(clone, "local")
    path = stack_settings.file_of(clone, "local")
    before = path.read_text()
    salted(path, passphrase(clone))
    (clone.state / "passphrase").unlink()  # what './dev down' did before it removed the settings, too
    stack_settings.ensure(clone, "local")
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(before)
    assert path.read_text().startswith('# Settings of the stack "local"')

    path.write_text("encryptionsalt: damaged\n")
    stack_settings.ensure(clone, "local")
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(before)


def test_new_settings_of_a_template_are_added(clone):
    """For example a new required setting."""
    path = stack_settings.file_of(clone, "local")
    path.write_text("# mine\nconfig:\n  hcloudEndpoint: http://x\n  hcloud:pollInterval: 1s\n")
    stack_settings.ensure(clone, "local")
    template = yaml.safe_load((stack_settings.TEMPLATES / "local.yaml").read_text())["config"]
    mine = {"hcloudEndpoint": "http://x", "hcloud:pollInterval": "1s"}
    del template["ccm-from-scratch:hcloudEndpoint"]  # which the short key means as well
    assert yaml.safe_load(path.read_text())["config"] == {**template, **mine}
    assert path.read_text().startswith("# mine\n")


def test_unreadable_secrets_are_kept(clone):
    path = stack_settings.file_of(clone, "local")
    salt, secret = salt_line("another"), sealed("another", b"x")
    text = f"encryptionsalt: {salt}\nconfig:\n  hcloud:token:\n    secure: {secret}\n"
    path.write_text(text)
    with pytest.raises(SandboxError, match=r"Pulumi\.local\.yaml: the secrets in this file"):
        stack_settings.ensure(clone, "local")
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "says"), [("config: [", "is not YAML"), ("config: [a]", "config: must be a mapping")]
)
def test_unreadable_settings(clone, text, says):
    stack_settings.file_of(clone, "local").write_text(text)
    with pytest.raises(SandboxError, match=rf"Pulumi\.local\.yaml: {says}"):
        stack_settings.ensure(clone, "local")


@pytest.mark.slow
def test_interrupting_pulumi(clone):
    (clone.root / "pulumi.py").write_text(PULUMI)
    program = script(clone.root / "bin/pulumi", f'exec "{sys.executable}" "{clone.root}/pulumi.py"')
    child = subprocess.Popen(
        [sys.executable, "-c", DEV, str(clone.root), str(clone.cache.parent)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "began\n"
    os.killpg(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert said == "all kept\n"
