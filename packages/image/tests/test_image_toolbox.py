import io
import json
import os
import platform
import tarfile

import pytest

from image import lockfile, toolbox
from image.build import cache_folder
from image.errors import ImageError
from image.layer import unpack
from image.mirror import open_mirror
from image.platforms import of_machine
from tests.child_processes import run
from tests.prepared import missing

KEPT = """
usr/bin/dig usr/lib64/ld-linux-x86-64.so.2 usr/share/doc/curl/copyright usr/share/iproute2/rt_tables
usr/lib/x86_64-linux-gnu/libdns-9.20.30-1~deb13u1-Debian.so
"""
LEFT = """
usr/bin/delv usr/lib/x86_64-linux-gnu/gconv/BIG5.so usr/share/doc/curl/changelog.gz var/lib/dpkg/info
"""


def test_what_belongs_into_the_image():
    assert [path for path in KEPT.split() if not toolbox.is_kept(path)] == []
    assert [path for path in LEFT.split() if toolbox.is_kept(path)] == []


def test_the_lock_has_what_the_image_is_about_and_nothing_that_it_does_without():
    names = {pin.name for pin in lockfile.read(toolbox.LOCK).pins}
    assert names >= {*toolbox.ROOTS}
    assert not names & toolbox.LEFT_OUT.keys()


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
    script = "dig -v && curl --version && ip -V && tcpdump --version && ss -V && ls /etc | grep -q protocols"
    enter = f'mount --bind /dev {tmp_path}/dev; exec chroot {tmp_path} sh -c "$0"'
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = run(["unshare", "-m", "sh", "-c", enter, script], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    applets = run(["chroot", tmp_path, "/usr/bin/busybox", "--list"]).stdout.split()
    links = {path.name for path in (tmp_path / "usr/bin").iterdir() if path.is_symlink()}
    assert links - {"sh", "ash"} <= {*applets}
