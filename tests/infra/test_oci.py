from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import ImageBuildError
from infra.files import ROOT
from infra.oci import debian, recipe, tools
from infra.oci.archive import describe, write_archive
from infra.oci.build import distribution_files, forget_oldest, read_source, remove_dead_weight
from infra.oci.layer import read_layer, write_layer


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/run").write_text("#!/bin/sh\n")
    (folder / "bin/run").chmod(0o700)
    (folder / "notes.txt").write_text("hello")
    os.link(folder / "notes.txt", folder / "same.txt")
    (folder / "link").symlink_to("notes.txt")
    return folder


def test_a_layer_has_what_the_folder_has(tree, tmp_path):
    layer = write_layer(tree, "opt/app", tmp_path / "layer.tar.gz", epoch=1000)
    with tarfile.open(layer.path) as tar:
        members = {member.name: member for member in tar}
        assert tar.extractfile("opt/app/same.txt").read() == b"hello"
    assert list(members)[:3] == ["opt", "opt/app", "opt/app/bin"]
    assert members["opt/app/bin/run"].mode == 0o755
    assert members["opt/app/notes.txt"].mode == 0o644
    assert members["opt/app/link"].linkname == "notes.txt"
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 1000)}


def test_digests_are_those_of_the_bytes(tree, tmp_path):
    layer = write_layer(tree, "", tmp_path / "layer.tar.gz", epoch=0)
    content = layer.path.read_bytes()
    assert layer.digest == hashlib.sha256(content).hexdigest()
    assert layer.diff_id == hashlib.sha256(gzip.decompress(content)).hexdigest()
    assert layer.size == len(content)
    assert read_layer(layer.path) == layer


def test_the_same_files_are_the_same_layer(tree, tmp_path):
    first = write_layer(tree, "x", tmp_path / "1.tar.gz", epoch=5)
    os.utime(tree / "notes.txt", (1, 1))
    second = write_layer(tree, "x", tmp_path / "2.tar.gz", epoch=5)
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)
    (tree / "notes.txt").write_text("other")
    assert write_layer(tree, "x", tmp_path / "3.tar.gz", epoch=5).digest != first.digest


def test_a_half_written_layer_is_none(tree, tmp_path):
    layer = write_layer(tree, "", tmp_path / "layer.tar.gz", epoch=0)
    layer.path.with_suffix(".json").unlink()
    assert read_layer(layer.path) is None


def test_an_archive_is_an_oci_layout(tree, tmp_path):
    layers = [write_layer(tree, name, tmp_path / f"{name}.tar.gz", epoch=0) for name in ("a", "b")]
    image = describe("localhost/x", layers, {"User": "1"}, epoch=0)
    write_archive(image, layers, tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files["blobs/" + entry["digest"].replace(":", "/")])
    assert [item["digest"] for item in manifest["layers"]] == [f"sha256:{layer.digest}" for layer in layers]
    config = json.loads(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.diff_id}" for layer in layers]
    assert config["created"] == "1970-01-01T00:00:00Z"
    assert entry["annotations"]["io.containerd.image.name"] == image.reference
    assert image.reference == f"localhost/x:{image.digest[:12]}"


sources = st.dictionaries(st.text(min_size=1, max_size=8), st.binary(max_size=8), max_size=4)


@given(lock=st.binary(max_size=8), first=sources, second=sources, epoch=st.integers(0, 2**31))
def test_keys_tell_contents_apart(lock, first, second, epoch):
    one, two = recipe.keys(lock, first, epoch), recipe.keys(lock, second, epoch)
    assert (one.image == two.image) == (first == second)
    assert one.base == two.base
    assert one.dependencies == two.dependencies
    assert recipe.keys(lock + b"x", first, epoch).dependencies != one.dependencies
    assert recipe.keys(lock, first, epoch + 1).base != one.base


@given(parts=st.lists(st.binary(max_size=6), max_size=4), cut=st.integers(0, 6))
def test_borders_between_parts_count(parts, cut):
    moved = [parts[0][:cut], parts[0][cut:], *parts[1:]] if parts else [b""]
    assert recipe.digest(parts) != recipe.digest(moved)


def test_the_container_runs_as_nobody_in_particular():
    config = recipe.image_config()
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"][-2:] == ["-m", "ccm"]


@pytest.mark.parametrize(
    ("path", "dead"),
    [
        ("kubernetes/client/models/v1_pod.py", True),
        ("kubernetes/aio/client/api/core_v1_api.py", True),
        ("kubernetes/aio/client/models/__init__.py", False),
        ("kubernetes/aio/client/api_client.py", False),
        ("hcloud/servers/client.py", False),
        ("aiohttp/_websocket/mask.pyx", True),
        ("bin/httpx", True),
        ("yarl/__pycache__/x.pyc", True),
        ("dateutil/test/test_x.py", True),
        ("pydantic/api.py", False),
    ],
)
def test_dead_weight(path, dead):
    assert recipe.is_dead_weight(path) is dead


def test_dead_weight_is_removed_with_its_folders(tmp_path):
    for name in ("kubernetes/client/models/v1_pod.py", "bin/x", "msgspec/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    remove_dead_weight(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "msgspec",
        "msgspec/__init__.py",
    ]


def test_the_source_is_the_ccm_and_its_entry_points():
    source = read_source(ROOT, {"SOURCE_DATE_EPOCH": "7"})
    assert source.epoch == 7
    assert b"--hash=sha256:" in source.lock
    assert "ccm/__init__.py" in source.files
    assert not any("__pycache__" in path or path.startswith("sandbox") for path in source.files)
    (entry_points,) = [content for path, content in source.files.items() if path.endswith("entry_points.txt")]
    assert b"[ccm.clouds]" in entry_points


def test_metadata_of_a_distribution():
    pyproject = '[project]\nname="a-b"\nversion="1"\n[project.entry-points."g"]\nx="m:f"'
    files = distribution_files(pyproject)
    assert files["a_b-1.dist-info/entry_points.txt"] == b"[g]\nx = m:f\n"
    assert files["a_b-1.dist-info/METADATA"].startswith(b"Metadata-Version: 2.1\nName: a-b\n")


def test_a_machine_without_the_tools_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ImageBuildError, match=r"mmdebstrap is not installed.*ccmImage"):
        tools.check_machine()


def test_a_tool_that_fails_shows_its_last_lines():
    with pytest.raises(ImageBuildError, match="unpacking failed with code 3; its last lines:\nno space left"):
        tools.run("unpacking", ["sh", "-c", "echo no space left; exit 3"], 10)


def test_a_tool_that_hangs_is_ended():
    with pytest.raises(ImageBuildError, match="took more than"):
        tools.run("unpacking", ["sleep", "5"], 0.1)


def test_licences_and_the_list_of_packages_stay(tmp_path):
    stays = [
        "usr/share/doc/libc6/copyright",
        "usr/share/common-licenses/GPL-3",
        "var/lib/dpkg/status.d/libc6",
        "usr/bin/python3.11",
    ]
    goes = [
        "usr/share/doc/libc6/changelog.Debian.gz",
        "usr/share/man/man1/python3.1.gz",
        "usr/share/ca-certificates/mozilla/x.crt",
        "usr/bin/openssl",
        "usr/sbin/dpkg",
        "var/lib/dpkg/status",
        "var/lib/dpkg/info/format",
        "var/lib/apt/lists/x",
    ]
    for name in [*stays, *goes]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("content")
    (tmp_path / "usr/share/doc/libc-bin").symlink_to("libc6")
    debian.finish(tmp_path)
    assert all((tmp_path / name).is_file() for name in stays)
    assert (tmp_path / "usr/share/doc/libc-bin/copyright").is_file()
    assert not any((tmp_path / name).exists() for name in goes)
    assert not (tmp_path / "usr/share/man").exists()
    assert (tmp_path / recipe.CERTIFICATES).read_text() == "content\n"


def test_only_mirrors_of_the_right_suite():
    text = """Types: deb
# a comment
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates trixie
Components: main

Types: deb-src
URIs: http://mirror.example.org/debian
Suites: bookworm
Components: main
"""
    assert debian.suite_mirrors(text) == [
        "deb http://mirror.example.org/debian bookworm main",
        "deb http://mirror.example.org/debian bookworm-updates main",
    ]
    assert debian.suite_mirrors("") == []


def test_only_the_archives_used_last_stay(tmp_path):
    for age, name in enumerate(["new.tar", "used.tar", "old.tar", "older.tar", "app-old.tar.gz"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app-old.tar.gz", "new.tar", "used.tar"]
    forget_oldest(tmp_path, keep=2)
    assert len(list(tmp_path.iterdir())) == 3
