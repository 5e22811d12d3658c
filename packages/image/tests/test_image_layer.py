import hashlib
import io
import tarfile

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from image.layer import archive, make_layer
from image.platforms import AMD64, ARM64, of_machine
from image.tree import File, Folder, Link, below

TREE = {
    "bin/run": File(b"#!/bin/sh\n", executable=True),
    "notes.txt": File(b"hello"),
    "link": Link("notes.txt"),
    "tmp": Folder(0o1777),
}
names = st.text("abc", min_size=1, max_size=3)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def members(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {member.name: member for member in tar}


def test_a_layer_has_what_the_tree_has():
    found = members(archive(below("opt/app", TREE), epoch=1000))
    assert list(found) == sorted(found)
    assert list(found)[:3] == ["opt", "opt/app", "opt/app/bin"]
    assert found["opt/app/bin/run"].mode == 0o755
    assert found["opt/app/notes.txt"].mode == 0o644
    assert found["opt/app/link"].linkname == "notes.txt"
    assert found["opt/app/tmp"].mode == 0o1777
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in found.values()} == {(0, 0, "", "", 1000)}


def test_the_identity_of_a_layer_is_that_of_its_archive():
    layer = make_layer(TREE, epoch=0)
    plain = zstandard.ZstdDecompressor().decompress(layer.content)
    assert plain == archive(TREE, epoch=0)
    assert layer.diff_id == hashlib.sha256(plain).hexdigest()


@given(st.dictionaries(paths, st.binary(max_size=4)), st.randoms())
def test_the_order_of_files_does_not_matter(content, chance):
    tree = {f"{path}/x": File(data) for path, data in content.items()}
    shuffled = list(tree.items())
    chance.shuffle(shuffled)
    assert archive(dict(shuffled), 5) == archive(tree, 5)


def test_platforms_by_the_kernels_name():
    assert of_machine("x86_64") is AMD64
    assert of_machine("aarch64") is ARM64
    assert of_machine("riscv64") is None
