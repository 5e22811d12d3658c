import json
import signal
import subprocess
import urllib.request
import zipfile
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.slow

IMPORT_ALL = """
import importlib, pkgutil, hetzner_emulator
for module in pkgutil.walk_packages(hetzner_emulator.__path__, "hetzner_emulator."):
    importlib.import_module(module.name)
print("all of them")
"""


def test_the_wheel_has_only_its_own_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"hetzner_emulator"}
    other = [name for name in names if not name.endswith(".py") and ".dist-info/" not in name]
    assert other
    assert all(name.startswith("hetzner_emulator/admin/page/") for name in other)


def test_the_wheel_can_be_imported_and_depends_neither_on_kubernetes_nor_on_pulumi(installed):
    said = installed.run(installed.python, "-c", IMPORT_ALL)
    assert said.stdout.strip() == "all of them"
    listed = installed.run(installed.python, "-m", "pip", "list", "--format", "json").stdout
    names = {package["name"].lower() for package in json.loads(listed)}
    assert "hetzner-emulator" in names
    assert not {"ccm-from-scratch", "kubernetes", "pulumi", "prometheus-client", "structlog"} & names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "70000"], "--port 70000: "),
        (["--token", "a b"], "--token: "),
        (["--rate-limit", "-1"], "--rate-limit -1: "),
        (["--state-dir", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_errors_of_serve_have_one_line(installed, options, says):
    said = installed.run("hetzner-emulator", "serve", *options)
    assert said.returncode == 1
    assert said.stdout.startswith("✗ ")
    assert says in said.stdout
    assert said.stdout.count("\n") == 1


@contextmanager
def served(installed, *options):
    command = [f"{installed.root}/bin/hetzner-emulator", "serve", *options]
    with subprocess.Popen(
        command, cwd=installed.folder, env=installed.variables, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            lines = [child.stdout.readline().strip() for _ in range(5)]
            exports = dict(line.removeprefix("export ").split("=", 1) for line in lines[3:])
            yield exports["HCLOUD_ENDPOINT"], exports["HCLOUD_TOKEN"]
        finally:
            child.send_signal(signal.SIGINT)
            assert child.wait(60) == 0


def call(endpoint, token, path, body=None):
    request = urllib.request.Request(
        endpoint + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_the_emulator_serves_without_a_clone(installed, guide):
    assert [line for line in guide.typed if "serve" in line] == ["hetzner-emulator serve"]
    with served(installed) as (endpoint, token):
        call(endpoint, token, "/networks", {"name": "net", "ip_range": "10.0.0.0/16"})
        assert len(call(endpoint, token, "/networks")["networks"]) == 1
        assert len(token) == 64
    assert not list(installed.folder.iterdir())


def test_the_state_is_in_the_given_folder(installed, tmp_path):
    folder = tmp_path / "kept"
    with served(installed, "--state-dir", str(folder)) as (endpoint, token):
        call(endpoint, token, "/networks", {"name": "net", "ip_range": "10.0.0.0/16"})
        second = installed.run("hetzner-emulator", "serve", "--state-dir", str(folder))
        assert second.returncode == 1
        assert "another emulator already uses this folder" in second.stdout
    assert folder.stat().st_mode & 0o077 == 0
    with served(installed, "--state-dir", str(folder)) as (endpoint, again):
        assert again == token
        assert len(call(endpoint, token, "/networks")["networks"]) == 1
