import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from sandbox.commands.doctor import examine, pulumi_checks
from sandbox.pulumi_cli import cli
from tests.child_processes import script

ROOT = Path(__file__).resolve().parents[3]


def test_no_machine_image_without_machines(site, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    checks = {check.what: check for check in examine(site)}
    assert "API record" in checks["servers"].found
    assert "machines need root" in checks["servers"].found
    assert "./dev up" in checks["Kubernetes toolchain"].remedy
    assert "machine image" not in checks
    assert {"inotify instances", "inotify watches", "memory", "disk"} <= checks.keys()


def checks(tmp_path):
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    return {check.what: check for check in pulumi_checks(environment, tmp_path / "cache")}


def test_a_cli_on_path_is_named_with_its_version(tmp_path):
    assert "./dev up builds it" in checks(tmp_path)["Pulumi CLI"].remedy
    cli = script(tmp_path / "bin/pulumi", "echo v3.259.0")
    found = checks(tmp_path)["Pulumi CLI"]
    assert found.severity == "ok"
    assert "v3.259.0" in found.found
    assert str(cli) in found.found


def test_official_plugins(tmp_path):
    on_path = script(tmp_path / "bin/pulumi-resource-hcloud", "")
    version = metadata.version("pulumi-kubernetes")
    home = tmp_path / ".pulumi/plugins"
    script(home / "resource-kubernetes-v4.0.0/pulumi-resource-kubernetes", "")
    found = checks(tmp_path)
    assert found["Pulumi plugin hcloud"].found.startswith(str(on_path))
    assert found["Pulumi plugin kubernetes"].severity == "note", "only the SDK's version will do"
    assert f"pulumi plugin install resource kubernetes {version}" in found["Pulumi plugin kubernetes"].remedy
    installed = script(home / f"resource-kubernetes-v{version}/pulumi-resource-kubernetes", "")
    assert checks(tmp_path)["Pulumi plugin kubernetes"].found.startswith(str(installed))


@pytest.mark.parametrize("text", ["echo hello", "exit 1"])
def test_a_broken_cli(tmp_path, text):
    cli = script(tmp_path / "bin/pulumi", text)
    (found,) = checks(tmp_path).values()
    assert found.severity == "stop"
    assert str(cli) in found.found


def test_the_sandboxs_plugins_replace_missing_ones(tmp_path):
    root, environment = tmp_path / "clone", {"PATH": "/nowhere", "HOME": str(tmp_path)}
    built, users = cli.Cli(tmp_path, built=True), cli.Cli(tmp_path, built=False)
    assert "PULUMI_HOME" not in cli.variables(users, root, environment), "it downloads them"
    home = Path(cli.variables(built, root, environment)["PULUMI_HOME"])
    for plugin in cli.plugins(environment):
        start = home / "plugins" / f"resource-{plugin.name}-v{plugin.version}/pulumi-resource-{plugin.name}"
        assert os.access(start, os.X_OK)
        assert f"pulumi_plugins.serve {plugin.name}" in start.read_text()
    # one that could not be downloaded once is the sandbox's from then on
    assert cli.variables(users, root, environment)["PULUMI_HOME"] == str(home)
    for plugin in cli.plugins(environment):
        folder = tmp_path / f".pulumi/plugins/resource-{plugin.name}-v{plugin.version}"
        script(folder / f"pulumi-resource-{plugin.name}", "")
    assert "PULUMI_HOME" not in cli.variables(built, root, environment)


def test_a_cli_that_can_not_download_gets_the_sandboxs_plugins(tmp_path):
    root, environment = tmp_path / "clone", {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    users = cli.Cli(script(tmp_path / "bin/pulumi", "exit 1"), built=False)
    cli.provide(users, root, environment, lambda _line: None)
    assert "PULUMI_HOME" in cli.variables(users, root, environment)


def test_the_command_of_a_clone_is_not_the_cli(tmp_path):
    script(tmp_path / "ours/pulumi", "exec python -P -m sandbox.pulumi_cli")
    script(tmp_path / "clone/pulumi", "exec python -P -m sandbox.engine")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/pulumi").write_text("")
    users = script(tmp_path / "users/pulumi", "")
    path = os.pathsep.join(str(tmp_path / name) for name in ("ours", "clone", "plain", "users"))
    assert cli.find_on_path({"PATH": path}) == users
    assert cli.find_on_path({"PATH": str(tmp_path / "ours")}) is None
