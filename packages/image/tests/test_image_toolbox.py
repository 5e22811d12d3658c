import io
import json
import os
import platform
import tarfile

import pytest

from image import toolbox
from image.build import cache_folder
from image.errors import ImageError
from image.layer import unpack
from image.mirror import open_mirror
from image.platforms import of_machine
from tests.child_processes import run
from tests.prepared import missing


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for chroot")
def test_every_tool_runs(tmp_path):
    archive = io.BytesIO()
    try:
        toolbox.write(open_mirror(cache_folder() / "packages"), of_machine(platform.machine()), archive)
    except ImageError as error:
        missing(error)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:

        def blob(digest):
            return tar.extractfile(f"blobs/{digest.replace(':', '/')}").read()

        (entry,) = json.load(tar.extractfile("index.json"))["manifests"]
        assert entry["annotations"]["io.containerd.image.name"] == toolbox.NAME
        (layer,) = json.loads(blob(entry["digest"]))["layers"]
        assert layer["size"] < 25 * 2**20
        unpack(blob(layer["digest"]), tmp_path)
    for kept in ("doc/curl/copyright", "iproute2/rt_tables"):
        assert (tmp_path / "usr/share" / kept).is_file()
    script = "dig -v && curl --version && ip -V && tcpdump --version && ss -V && ls /etc | grep -q protocols"
    enter = f'mount --bind /dev {tmp_path}/dev; exec chroot {tmp_path} sh -c "$0"'
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = run(["unshare", "-m", "sh", "-c", enter, script], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    applets = run(["chroot", tmp_path, "/usr/bin/busybox", "--list"]).stdout.split()
    links = {path.name for path in (tmp_path / "usr/bin").iterdir() if path.is_symlink()}
    assert links - {"sh", "ash"} <= {*applets}
