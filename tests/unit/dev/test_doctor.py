"""`./dev doctor` where not everything can be had."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sandbox import host
from sandbox.doctor import examine
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
