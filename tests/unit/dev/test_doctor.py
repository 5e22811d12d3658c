"""`./dev doctor` where not everything can be had."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from sandbox import genuine, host
from sandbox.doctor import examine, pulumi_checks
from sandbox.site import open_site

ROOT = Path(__file__).resolve().parents[3]


def test_no_machine_image_is_promised_where_no_machine_can_run(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    clone = open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}, list, host.port_is_free)
    checks = {check.what: check for check in examine(clone)}
    assert "records with hollow nodes" in checks["servers"].found
    assert "machines need root" in checks["servers"].found
    assert "./dev up" in checks["Kubernetes toolchain"].remedy
    assert "machine image" not in checks
    assert {"inotify instances", "inotify watches", "memory", "disk"} <= checks.keys()


# --- a genuine Pulumi CLI, which can't be had here: a program that prints what that prints

WANTED = {"hcloud": genuine.metadata.version("pulumi-hcloud")}
LISTED = [
    {"name": "hcloud", "kind": "resource", "version": WANTED["hcloud"], "size": 1, "installTime": "x"},
    {"name": "hcloud", "kind": "resource", "version": "1.39.1", "size": 1},
    {"name": "kubernetes", "kind": "resource", "version": "4.0.0", "size": 1},
    {"name": "kubernetes", "kind": "language", "version": "99.0.0", "size": 1},
]


def checks(tmp_path, version, listed, **more):
    cli = tmp_path / "pulumi"
    cli.write_text(
        f"#!/bin/sh\ncase $1 in version) echo {shlex.quote(version)};; "
        f"plugin) echo {shlex.quote(listed)};; *) exit 1;; esac\n"
    )
    cli.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **more}
    return {check.what: check for check in pulumi_checks(environment, ROOT / ".venv/bin/pulumi")}


def test_a_genuine_cli_and_its_plugins_are_named_with_their_versions(tmp_path):
    found = checks(tmp_path, "v3.259.0", json.dumps(LISTED))
    assert f"{tmp_path}/pulumi v3.259.0 " in found["Pulumi"].found
    assert found["Pulumi"].verdict == found["Pulumi plugin hcloud"].verdict == "ok"
    assert found["Pulumi plugin hcloud"].found.startswith(f"{WANTED['hcloud']}, 1.39.1 ")
    missing = found["Pulumi plugin kubernetes"]
    assert missing.verdict == "note"
    assert "installed: 4.0.0" in missing.found
    assert "pulumi plugin install resource kubernetes " in missing.remedy


def test_a_plugin_on_path_is_taken_whatever_its_version(tmp_path):
    plugin = tmp_path / "pulumi-resource-hcloud"
    plugin.write_text("")
    plugin.chmod(0o755)
    found = checks(tmp_path, "v3.259.0", "[]")
    assert found["Pulumi plugin hcloud"].found.startswith(str(plugin))
    assert "installed: none" in found["Pulumi plugin kubernetes"].found


@pytest.mark.parametrize(
    ("version", "listed"), [("hello", "[]"), ("v3.259.0", "no JSON"), ("v3.259.0", '{"a": 1}')]
)
def test_what_is_no_pulumi_cli_is_one_clear_line(tmp_path, version, listed):
    (found,) = checks(tmp_path, version, listed).values()
    assert found.verdict == "missing"
    assert str(tmp_path / "pulumi") in found.found


def test_the_embedded_engine_is_named_where_it_runs(tmp_path):
    (asked_for,) = checks(tmp_path, "v3.259.0", "[]", CCMFS_ENGINE="embedded").values()
    (no_other,) = pulumi_checks({"PATH": "/nowhere"}, ROOT / ".venv/bin/pulumi")
    assert "embedded" in asked_for.found
    assert "embedded" in no_other.found
