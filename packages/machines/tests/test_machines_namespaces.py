import sys

import pytest

from tests.child_processes import run

pytestmark = pytest.mark.machines

# In a separate mount namespace with a separate /run, so that the host's /run/netns stays.
SCRIPT = """
set -e
mount -t tmpfs theirs /run
exec "$1" -c "$2"
"""
REMOVE = """
import subprocess
from pathlib import Path
from hetzner_machines import namespaces

namespaces.create("before")
subprocess.run(["ip", "netns", "add", "theirs"], check=True)
namespaces.create("after")
for name in ("before", "after"):
    namespaces.delete(name)
assert namespaces.listing() == ["theirs"], namespaces.listing()
assert namespaces.exists("theirs")
mounted = Path("/proc/self/mountinfo").read_text()
assert "/run/netns/theirs" in mounted
assert not [name for name in ("before", "after") if name in mounted], mounted
"""


def test_namespaces_covered_by_ip_netns_add_are_removed() -> None:
    command = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", sys.executable, REMOVE]
    done = run(command)
    assert done.returncode == 0, done.stderr
