import json
import tarfile

from image import lockfile
from image.platforms import PLATFORMS, of_machine
from image.recipe import SUITE
from image.tree import File, Link
from sandbox.images.archive import read
from sandbox.kubernetes.components import COMPONENTS, KUBERNETES_TESTS
from sandbox.kubernetes_tests import images, recipe
from sandbox.kubernetes_tests.recipe import IMAGES, TestImage

BUILT = {program for one in (*COMPONENTS, KUBERNETES_TESTS) for program in (*one.programs, *one.links)}


def test_the_committed_lock_is_complete():
    lock = lockfile.read(recipe.LOCK)
    assert lock.suite == SUITE
    by_platform = [{one.name for one in lock.of(platform)} for platform in PLATFORMS]
    assert by_platform[0] == by_platform[1] >= {*recipe.ROOTS}
    assert not by_platform[0] & {*recipe.LEFT_OUT}


def test_programs_and_names_of_images():
    assert {name for image in IMAGES for name in image.programs.values()} <= BUILT
    names = [name for image in IMAGES for name in image.names]
    assert len(names) == len(set(names))


def test_programs_of_packages_replace_applets():
    debian = {"usr/bin/busybox": File(b"b", True), "usr/bin/nc.openbsd": File(b"n", True)}
    debian |= {"usr/bin/mount": File(b"m", True), "usr/share/doc/x": File(b"")}
    tree = recipe.tools(debian, ["sh", "mount", "wget", "nc", "iptables"])
    assert tree["usr/bin/wget"] == Link("busybox")
    assert tree["usr/bin/mount"] == File(b"m", True)
    assert tree["usr/bin/nc"] == Link("nc.openbsd")
    assert tree["usr/bin/sh"] == Link("bash")
    assert "usr/bin/iptables" not in tree
    assert "usr/share/doc/x" not in tree
    assert not any(path.startswith("bin/") for path in tree)


def test_an_archive_of_images(tmp_path):
    """Without the tools, which are Debian's."""
    programs = [tmp_path / "bin"]
    programs[0].mkdir()
    for name in BUILT:
        (programs[0] / name).write_text(name)
    own = [
        recipe.PAUSE,
        TestImage(("served:1",), (), ("/a",), programs={"a": "agnhost"}, tools=False, serves_pause=True),
        TestImage(("root:1",), programs={"usr/local/bin/nnp": "nonewprivs"}, tools=False, user="1234"),
    ]
    archive = tmp_path / "images.tar"
    amd64 = of_machine("x86_64")
    images._write(archive, images._Builder(tmp_path, programs, amd64, lambda _: None), own)
    found = read(archive, tmp_path)
    assert found.architectures == {"amd64"}
    assert found.names == tuple(
        f"registry.k8s.io/{name}"
        for name in ("pause:3.10", "pause:3.10.1", "pause:3.10.2", "root:1", "served:1")
    )
    assert not archive.with_suffix(".partial").exists()
    again = tmp_path / "again.tar"
    images._write(again, images._Builder(tmp_path, programs, amd64, lambda _: None), own[:1])
    with tarfile.open(again) as tar:
        index = json.load(tar.extractfile("index.json"))
    assert len({entry["digest"] for entry in index["manifests"]}) == 1
