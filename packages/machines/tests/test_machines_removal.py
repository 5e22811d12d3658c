import sys

import pytest

from tests.child_processes import run

pytestmark = pytest.mark.machines

# In separate mount namespaces; without CAP_SYS_ADMIN nothing can be unmounted.
SCRIPT = """
set -e
mount -t tmpfs theirs "$1/machines/7/disk/root"
touch "$1/machines/7/disk/root/file"
setpriv --bounding-set=-sys_admin "$2" -c "$3" "$1"
test -e "$1/machines/7/disk/root/file"
"""
REMOVE = """
import sys
from pathlib import Path
from hetzner_emulator.backend import BackendError
from hetzner_machines.cleanup import remove_all
from hetzner_machines.machine import delete

state = Path(sys.argv[1])
for remove in (lambda: remove_all("0a1b2c", state), lambda: delete(state / "machines/7")):
    try:
        remove()
    except BackendError as error:
        print(error)
    else:
        sys.exit("nothing was refused")
"""


def test_files_below_a_busy_mount_stay(tmp_path):
    (tmp_path / "machines/7/disk/root").mkdir(parents=True)
    command = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable, REMOVE]
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert f"mount {tmp_path}/machines/7/disk/root" in done.stdout
    assert f"folder {tmp_path}/machines" in done.stdout
    assert "a file system is mounted at" in done.stdout
