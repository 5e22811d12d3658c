"""What goes wrong on a machine, done from its host: nothing on it has to answer for that."""

import subprocess
from contextlib import suppress

from hetzner_machines import records
from hetzner_machines.disk import MACHINES
from tests.e2e.conftest import Clone, eventually

SECONDS = 60.0
_UNITS = ("k3s", "k3s-agent")
_FOLDERS = [f"/etc/systemd/system/{unit}.service.d" for unit in _UNITS]
HANG = """set -e
nft add table inet hangs
nft add chain inet hangs input '{ type filter hook input priority -300; }'
nft add rule inet hangs input tcp dport 22 drop"""
"""Open connections hang, too, and no packet is rejected."""
ANSWER = "nft delete table inet hangs"
FAIL = "\n".join(
    ["set -e"]
    + [
        f"mkdir -p {folder}; printf '[Service]\\nExecStartPre=/bin/false\\n' > {folder}/fails.conf"
        for folder in _FOLDERS
    ]
    + ["systemctl daemon-reload || true"]  # a machine that boots may have no systemd yet, which reads it then
)
"""k3s does not start, be it there already or not."""
START = "\n".join([*(f"rm -f {folder}/fails.conf" for folder in _FOLDERS), "systemctl daemon-reload"])


def inside(clone: Clone, server_id: int, script: str) -> bool:
    """Run a shell script as root in a machine, and tell whether it succeeded."""
    run = records.read_run(clone.site.state / MACHINES / str(server_id) / "run.json")
    if run is None or run.init is None:
        return False
    command = ["nsenter", f"--target={run.init.pid}", "--mount", "--net", "--pid", "sh", "-c", script]
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode == 0
    return False


def until_done(clone: Clone, server_id: int, script: str) -> None:
    """Run a shell script in a machine, again and again until it succeeds: the machine may just boot."""
    eventually(lambda: inside(clone, server_id, script), SECONDS, f"server {server_id} runs the script")
