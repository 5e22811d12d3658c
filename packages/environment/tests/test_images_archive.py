import bz2
import gzip
import io
import json
import lzma
import os
import re
import tarfile

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sandbox.images import archive
from sandbox.images.archive import Contents, NotAnArchive, full_name

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def packed(files, before=""):
    """A tar archive of texts, or of values as JSON."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(before + name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return target.getvalue()


def read(path):
    return archive.read(path, path.parent)


def write_plain(path, target):
    archive.write_plain(path, target, path.parent)


def docker(*names, architecture="amd64"):
    """What ``docker save`` writes."""
    return {
        "c.json": {"architecture": architecture, "os": "linux"},
        "manifest.json": [{"Config": "c.json", "RepoTags": list(names), "Layers": []}],
    }


def layout(annotations, architecture="amd64"):
    """An OCI layout with one image."""
    return {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {
            "schemaVersion": 2,
            "manifests": [{"mediaType": MANIFEST, "digest": "sha256:m", "annotations": annotations}],
        },
        "blobs/sha256/m": {"config": {"digest": "sha256:c"}, "layers": []},
        "blobs/sha256/c": {"architecture": architecture},
    }


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "image.tar"
        path.write_bytes(content if isinstance(content, bytes) else packed(content))
        return path

    return write


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("app", "docker.io/library/app:latest"),
        ("app:1", "docker.io/library/app:1"),
        ("me/app", "docker.io/me/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry.example.com/app", "registry.example.com/app:latest"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("docker.io/library/app:1", "docker.io/library/app:1"),
        ("app@sha256:0", "docker.io/library/app@sha256:0"),
    ],
)
def test_full_names_of_images(name, full):
    assert full_name(name) == full
    assert full_name(full) == full


NAMED = Contents(("docker.io/library/app:1",), frozenset({"amd64"}))
SEVERAL = Contents(("docker.io/library/app:1", "docker.io/me/app:latest"), frozenset({"arm64"}))


@pytest.mark.parametrize(
    ("files", "contents"),
    [
        (docker("app:1", "me/app", architecture="arm64"), SEVERAL),
        (layout({archive.NAME: "app:1", archive.REFERENCE: "1"}), NAMED),
        (layout({archive.REFERENCE: "app:1"}), NAMED),
    ],
)
def test_reading_an_archive(file, files, contents):
    assert read(file(files)) == contents


def test_architectures_of_an_index(file):
    files = layout({archive.NAME: "app:1"})
    files["index.json"]["manifests"][0] |= {"mediaType": INDEX, "digest": "sha256:i"}
    names = {"amd64", "arm64"}
    platforms = [{"platform": {"architecture": name}, "digest": f"sha256:{name}"} for name in names]
    files["blobs/sha256/i"] = {"mediaType": INDEX, "manifests": platforms}
    assert read(file(files)).architectures == names


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_a_compressed_archive_is_read_and_written_plain(file, tmp_path, pack):
    path = file(pack(packed(docker("app:1"))))
    assert read(path).names == ("docker.io/library/app:1",)
    with (tmp_path / "plain.tar").open("wb") as target:
        write_plain(path, target)
    with tarfile.open(tmp_path / "plain.tar", "r:") as tar:
        assert sorted(tar.getnames()) == ["c.json", "manifest.json"]


def test_the_layout_for_a_node(file, tmp_path):
    files = layout({archive.REFERENCE: "app:1", "other": "kept"})
    path = file(packed(files, before="./"))
    with (tmp_path / "plain.tar").open("wb") as target:
        write_plain(path, target)
    with tarfile.open(tmp_path / "plain.tar", "r:") as tar:
        (entry,) = json.load(tar.extractfile("index.json"))["manifests"]
        assert json.load(tar.extractfile("./blobs/sha256/c")) == {"architecture": "amd64"}
    kept = {archive.REFERENCE: "app:1", "other": "kept"}
    assert entry["annotations"] == {archive.NAME: "docker.io/library/app:1", **kept}
    assert read(tmp_path / "plain.tar") == read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"#!/bin/sh\n" * 100,
        gzip.compress(packed(docker("app:1")))[:60],
        zstandard.ZstdCompressor().compress(packed(docker("app:1")))[:60],
        {"file": "x"},
        docker(),
        {"manifest.json": [{"Config": "c.json", "RepoTags": ["a:1"]}]},
        {"manifest.json": b"{"},
        {"manifest.json": b"[" * 100_000},
        {"manifest.json": {"a": 1}},
        layout({archive.REFERENCE: "1.0"}),
        layout({}),
        layout({archive.NAME: "me/app\x1b[31m:1"}),
        docker("app:1\nB"),
        {k: v for k, v in layout({archive.NAME: "a:1"}).items() if not k.endswith("/c")},
    ],
)
def test_other_files_are_refused_by_name(file, content):
    path = file(content)
    with pytest.raises(NotAnArchive, match=re.escape(str(path))):
        read(path)


def test_folders_and_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(NotAnArchive):
            read(path)


NAMES = "RepoTags Config architecture manifests annotations digest config"
KEYS = st.sampled_from([*NAMES.split(), archive.NAME])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(["index.json", "manifest.json"]), JSON, JSON)
def test_any_json_in_an_archive(tmp_path_factory, name, content, blob):
    path = tmp_path_factory.mktemp("any") / "image.tar"
    path.write_bytes(packed({name: content, "blobs/None": blob, "None": blob}))
    try:
        found = read(path)
    except NotAnArchive:
        return
    assert all("/" in each and (":" in each or "@" in each) for each in found.names)
