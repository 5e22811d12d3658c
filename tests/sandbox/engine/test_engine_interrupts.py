"""An engine that ends interrupts its plugins, and waits five seconds for each that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from engine_lab import ROOT, pulumi

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["pulumi-language-python", "pulumi-resource-pulumi-python", "hcloud"])
def test_a_plugin_ends_by_an_interrupt_that_its_engine_ignores(name: str) -> None:
    ours = [sys.executable, "-m", "sandbox.engine.providers", name]
    command = ours if name == "hcloud" else [str(pulumi().with_name(name))]
    plugin = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "127.0.0.1:1"],
        cwd=ROOT,
        env={**os.environ, "PULUMI_PYTHON_CMD": sys.executable},
        stdout=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert plugin.stdout
        assert plugin.stdout.readline().strip().isdigit()
        os.killpg(plugin.pid, signal.SIGINT)
        plugin.wait(4)
    finally:
        plugin.kill()
        plugin.communicate(timeout=60)
