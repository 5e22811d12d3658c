"""The wheel alone: what is in it, and what it is good for where there is no clone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import urllib.request
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/tutorial/6-another-cloud.md"
OTHER_CLOUD = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))

IMPORT_ALL = """
import importlib, pkgutil, sys
for top in sys.argv[1:]:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print("all of them")
"""


SETTINGS = """
from ccm_pulumi.components import settings
from ccm_pulumi.manifests import read_manifests
wanted = settings(cluster_name="shop", ssh_allowed_cidrs="any")
(deployment,) = (item["kind"] for item in read_manifests() if item["kind"] == "Deployment")
print(wanted.cluster_name, wanted.k3s_version[:5], deployment)
"""


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_nothing_of_the_tree_alone_is_in_it(wheel):
    tops = {name.partition("/")[0] for name in names(wheel) if ".dist-info/" not in name}
    assert tops == {"ccm", "ccm_pulumi", "pytest_hetzner_cloud", "sandbox"}
    other = [name for name in names(wheel) if not name.endswith(".py") and ".dist-info/" not in name]
    console = "sandbox/cloud/admin/"
    assert any(name.startswith(console) for name in other)
    assert sorted(name for name in other if not name.startswith(console)) == [
        "ccm_pulumi/Pulumi.yaml",
        "ccm_pulumi/manifests/deployment.yaml",
        "ccm_pulumi/manifests/rbac.yaml",
    ]
    for only_of_the_tree in ("ccm_pulumi/__main__.py", "ccm_pulumi/image.py", "ccm/requirements.lock"):
        assert only_of_the_tree not in names(wheel)
    for name in names(wheel):
        assert not name.startswith(("sandbox/engine", "sandbox/machines", "sandbox/kubernetes")), name


def test_it_brings_no_command_but_its_own(wheel):
    # One called `pulumi` would stand before the Pulumi CLI of whoever installs it.
    with zipfile.ZipFile(wheel) as archive:
        (entries,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(entries).decode()
    scripts = text.partition("[console_scripts]\n")[2].partition("\n\n")[0]
    assert scripts.strip() == "ccm = ccm.__main__:main"


def test_the_source_distribution_has_no_state_of_an_environment(packages):
    (source,) = packages.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = [name.partition("/")[2] for name in archive.getnames()]
    assert "ccm/__main__.py" in members
    assert not [name for name in members if name.startswith((".sandbox", "kubeconfig", ".dev-env", ".venv"))]


def test_the_ccm_needs_no_extra(plain):
    said = plain.run("ccm", "--help")
    assert said.returncode == 0, said.stdout
    assert "--cloud-provider" in said.stdout
    # Neither pytest nor what the other parts need comes with it.
    assert plain.run(plain.python, "-c", "import cryptography").returncode
    assert plain.run(plain.python, "-c", "import pulumi").returncode


def test_without_the_extra_who_asks_for_traces_is_told_which_it_is(plain):
    asked = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
    said = plain.run("env", asked, "ccm", "--cloud-provider=sample")
    assert said.returncode == 2
    assert "Error: OTEL_EXPORTER_OTLP_ENDPOINT: asks for traces" in said.stdout
    assert "ccm-from-scratch[tracing]" in said.stdout


def test_without_the_extra_the_emulator_says_which_it_is(plain):
    said = plain.run(plain.python, "-m", "sandbox", "serve")
    assert said.returncode == 1
    assert said.stdout.count("\n") == 1
    assert "cryptography" in said.stdout
    assert "extra 'sandbox'" in said.stdout


def test_every_module_in_it_can_be_imported(full):
    said = full.run(full.python, "-c", IMPORT_ALL, "ccm", "sandbox", "pytest_hetzner_cloud")
    assert said.stdout.strip() == "all of them"


def test_so_can_the_components_of_the_program(with_pulumi):
    said = with_pulumi.run(with_pulumi.python, "-c", IMPORT_ALL, "ccm_pulumi")
    assert said.stdout.strip() == "all of them"
    said = with_pulumi.run(with_pulumi.python, "-c", SETTINGS)
    assert said.stdout.split() == ["shop", "v1.36", "Deployment"]


@pytest.mark.parametrize("command", ["up", "deploy", "doctor", "upp"])
def test_commands_of_a_clone_say_so(full, command):
    said = full.run(full.python, "-m", "sandbox", command)
    assert said.returncode == 1
    assert said.stdout.startswith(f"✗ {command!r} is no command of the installed package")
    assert said.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--backend", "machines"], "--backend machines: "),
        (["--port", "70000"], "--port 70000: "),
        (["--token", "a b"], "--token: "),
        (["--rate-limit", "-1"], "--rate-limit -1: "),
        (["--state-dir", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_what_serve_cannot_do_is_one_clear_line(full, options, says):
    said = full.run(full.python, "-m", "sandbox", "serve", *options)
    assert said.returncode == 1
    assert said.stdout.startswith("✗ ")
    assert says in said.stdout
    assert said.stdout.count("\n") == 1


@contextmanager
def served(installed, *options):
    command = [installed.python, "-m", "sandbox", "serve", "--backend", "records", *options]
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


def test_the_emulator_serves_without_a_clone(full, guide):
    assert [line for line in guide.typed if "serve" in line] == ["python -m sandbox serve --backend records"]
    with served(full) as (endpoint, token):
        call(endpoint, token, "/networks", {"name": "net", "ip_range": "10.0.0.0/16"})
        assert len(call(endpoint, token, "/networks")["networks"]) == 1
        assert len(token) == 64
    assert not list(full.folder.iterdir())


def test_its_state_is_kept_where_one_says(full, tmp_path):
    folder = tmp_path / "kept"
    with served(full, "--state-dir", str(folder)) as (endpoint, token):
        call(endpoint, token, "/networks", {"name": "net", "ip_range": "10.0.0.0/16"})
        second = full.run(full.python, "-m", "sandbox", "serve", "--state-dir", str(folder))
        assert second.returncode == 1
        assert "another process serves from this folder" in second.stdout
    assert folder.stat().st_mode & 0o077 == 0
    with served(full, "--state-dir", str(folder)) as (endpoint, again):
        assert again == token
        assert len(call(endpoint, token, "/networks")["networks"]) == 1


def test_the_contract_of_clouds_is_tested_from_it(full, tmp_path):
    for name, text in OTHER_CLOUD.items():
        (tmp_path / name).write_text(text)
    said = full.run(full.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert said.returncode == 0, said.stdout
    assert " passed" in said.stdout
