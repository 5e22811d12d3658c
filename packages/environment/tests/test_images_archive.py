"""Archives of container images: read, refused, and rewritten for a node."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import tarfile
from contextlib import suppress
from random import Random
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sandbox.images import archive
from sandbox.images.archive import Contents, full_name
from sandbox.images.errors import NotAnArchive

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
def test_a_short_name_is_what_kubernetes_makes_of_it(name, full):
    assert full_name(name) == full
    assert full_name(full) == full


def test_what_docker_saves_is_read(file):
    assert read(file(docker("app:1", "me/app", architecture="arm64"))) == Contents(
        ("docker.io/library/app:1", "docker.io/me/app:latest"), frozenset({"arm64"})
    )


@pytest.mark.parametrize(
    "annotations", [{archive.NAME: "app:1", archive.REFERENCE: "1"}, {archive.REFERENCE: "app:1"}]
)
def test_an_oci_layout_is_read(file, annotations):
    assert read(file(layout(annotations))) == Contents(("docker.io/library/app:1",), frozenset({"amd64"}))


def test_an_index_tells_all_its_architectures(file):
    files = layout({archive.NAME: "app:1"})
    files["index.json"]["manifests"][0] |= {"mediaType": INDEX, "digest": "sha256:i"}
    platforms = [
        {"platform": {"architecture": name}, "digest": f"sha256:{name}"} for name in ("amd64", "arm64")
    ]
    files["blobs/sha256/i"] = {"mediaType": INDEX, "manifests": platforms}
    assert read(file(files)).architectures == {"amd64", "arm64"}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_archive_is_read_and_written_plain(file, tmp_path, pack):
    path = file(pack(packed(docker("app:1"))))
    assert read(path).names == ("docker.io/library/app:1",)
    with (tmp_path / "plain.tar").open("wb") as target:
        write_plain(path, target)
    with tarfile.open(tmp_path / "plain.tar", "r:") as tar:
        assert sorted(tar.getnames()) == ["c.json", "manifest.json"]


def test_a_node_gets_a_layout_under_the_name_that_kubernetes_asks_for(file, tmp_path):
    files = layout({archive.REFERENCE: "app:1", "other": "kept"})
    path = file(packed(files, before="./"))
    with (tmp_path / "plain.tar").open("wb") as target:
        write_plain(path, target)
    with tarfile.open(tmp_path / "plain.tar", "r:") as tar:
        (entry,) = json.load(tar.extractfile("index.json"))["manifests"]
        assert json.load(tar.extractfile("./blobs/sha256/c")) == {"architecture": "amd64"}
    assert entry["annotations"] == {
        archive.NAME: "docker.io/library/app:1",
        archive.REFERENCE: "app:1",
        "other": "kept",
    }
    assert read(tmp_path / "plain.tar") == read(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no archive of container images"),
        (b"#!/bin/sh\n" * 100, "no archive of container images"),
        (gzip.compress(packed(docker("app:1")))[:60], "no archive of container images"),
        (zstandard.ZstdCompressor().compress(packed(docker("app:1")))[:60], "no archive of container images"),
        ({"file": "x"}, "neither an index.json"),
        (docker(), "save it by its name"),
        ({"manifest.json": [{"Config": "c.json", "RepoTags": ["a:1"]}]}, "c.json is missing"),
        ({"manifest.json": b"{"}, "manifest.json in it is no JSON"),
        ({"manifest.json": b"[" * 100_000}, "manifest.json in it is no JSON"),
        ({"manifest.json": {"a": 1}}, "a list is expected"),
        ({"manifest.json": b"[" + b" " * archive._MOST_JSON + b"]"}, "are allowed"),
        (layout({archive.REFERENCE: "1.0"}), "the tag 1.0"),
        (layout({}), "no name"),
        (layout({archive.NAME: "me/app\x1b[31m:1"}), r"called 'docker.io/me/app\\x1b\[31m:1', which is no"),
        (docker("app:1\nB"), "no image's name"),
        ({k: v for k, v in layout({archive.NAME: "a:1"}).items() if not k.endswith("/c")}, "is missing"),
    ],
)
def test_what_is_no_image_is_refused_with_the_reason(file, content, said):
    path = file(content)
    with pytest.raises(NotAnArchive, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_an_archive_that_was_damaged_on_its_way_is_read_or_refused(tmp_path, pack):
    random = Random(1)
    padding = {"blobs/sha256/p": random.randbytes(20_000)}
    whole = pack(packed(layout({archive.NAME: "app:1"}) | padding))
    path = tmp_path / "image.tar"
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(random.choice([1, 5, 50])):
            content[random.randrange(len(content))] = random.randrange(256)
        path.write_bytes(content)
        with suppress(NotAnArchive), io.BytesIO() as target:
            read(path)
            write_plain(path, target)


def test_a_file_that_can_not_be_read_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "image.tar")


def test_what_an_archive_says_of_itself_does_not_command_a_terminal(file):
    files = layout({archive.NAME: "app:1"})
    files["index.json"]["manifests"][0]["digest"] = "sha256:\x1b]0;x"
    with pytest.raises(NotAnArchive) as caught:
        read(file(files))
    assert str(caught.value).endswith(r"blobs/sha256/\x1b]0;x is missing")


def with_zeros(content, size):
    """An archive with a member of so many zeros, in few bytes (GNU's sparse members, form 1.0)."""
    target, no_data = io.BytesIO(content), b"1\n0\n0\n".ljust(512, b"\0")
    with tarfile.open(fileobj=target, mode="a", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("zeros")
        member.size = len(no_data)
        facts = {"major": "1", "minor": "0", "name": "zeros", "realsize": str(size)}
        member.pax_headers = {f"GNU.sparse.{key}": value for key, value in facts.items()}
        tar.addfile(member, io.BytesIO(no_data))
    return target.getvalue()


def with_many_files() -> bytes:
    return b"".join(tarfile.TarInfo(str(n)).tobuf() for n in range(archive._MOST_MEMBERS + 1))


def with_long_name(size):
    """The header of a member whose name has so many bytes."""
    member = tarfile.TarInfo("name")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.fixture
def nearly_full(monkeypatch):
    """A disk with 3 MiB free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**20))


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
@pytest.mark.usefixtures("nearly_full")
def test_a_few_bytes_that_stand_for_more_than_the_disk_has_are_refused(file, pack):
    path = file(pack(packed(docker("app:1") | {"layer": bytes(2 * 2**20)})))
    assert path.stat().st_size < 10_000
    with pytest.raises(NotAnArchive, match=r"than 1 MiB uncompressed, more than the disk of .* has room"):
        read(path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.usefixtures("nearly_full")
def test_a_member_that_stands_for_more_than_the_disk_has_is_refused(file):
    path = file(with_zeros(packed(docker("app:1")), 2**50))
    assert read(path).names == ("docker.io/library/app:1",)
    with pytest.raises(NotAnArchive, match="more than 2 MiB uncompressed"), io.BytesIO() as target:
        write_plain(path, target)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (with_many_files, "it has more than 10000 files"),
        (lambda: with_long_name(2**40), "a header in it has 1099511627776 bytes|empty header"),
    ],
    ids=["files", "header"],
)
def test_headers_that_would_fill_the_memory_are_refused(file, content, said):
    with pytest.raises(NotAnArchive, match=said):
        read(file(content()))


def test_what_can_be_read_only_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAnArchive, match="no file on a disk"):
        read(tmp_path / "pipe")


def test_a_folder_is_refused_with_the_command_that_packs_it(tmp_path):
    with pytest.raises(NotAnArchive, match="a folder; pack it: tar"):
        read(tmp_path)


def test_blobs_that_name_themselves_or_one_another_again_and_again_end(file):
    files = layout({archive.NAME: "app:1"})
    top = files["index.json"]["manifests"][0]
    known = read(file(files)).architectures
    index = {"mediaType": INDEX, "digest": "sha256:i0"}
    for level in range(40):  # 40 levels of three: nobody lives to see the end of all ways through them
        below = {"mediaType": INDEX, "digest": f"sha256:i{level + 1}"}
        files[f"blobs/sha256/i{level}"] = {"manifests": [below, below, index, dict(top)]}
    files["blobs/sha256/i40"] = {"manifests": [index, {"digest": "sha256:loop"}]}
    files["blobs/sha256/loop"] = {"config": {"digest": "sha256:loop"}}
    for level in range(2000):
        files[f"blobs/sha256/deep{level}"] = {"config": {"digest": f"sha256:deep{level + 1}"}}
    files["blobs/sha256/deep2000"] = {"architecture": "mips"}
    top |= {"mediaType": INDEX, "digest": "sha256:i40"}
    files["index.json"]["manifests"].append({**top, "digest": "sha256:deep0", "mediaType": "x"})
    assert read(file(files)).architectures == {*known, "mips"}


KEYS = st.sampled_from(
    [
        "manifests",
        "annotations",
        archive.NAME,
        "digest",
        "platform",
        "config",
        "RepoTags",
        "Config",
        "architecture",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(["index.json", "manifest.json"]), JSON, JSON)
def test_whatever_json_an_archive_holds_it_is_read_or_refused(tmp_path_factory, name, content, blob):
    path = tmp_path_factory.mktemp("any") / "image.tar"
    path.write_bytes(packed({name: content, "blobs/None": blob, "None": blob}))
    try:
        found = read(path)
    except NotAnArchive:
        return
    assert all("/" in each and (":" in each or "@" in each) for each in found.names)
