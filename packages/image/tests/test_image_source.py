from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image import lockfile, recipe
from image.errors import LockFileError, VariableError
from image.lockfile import Lock, Pin
from image.platforms import AMD64, ARM64, PLATFORMS
from image.source import Project, Source, digest, read_source
from image.tree import File


def pin(name, architecture="amd64", version="1"):
    return Pin(name, architecture, version, f"pool/{name}.deb", "0" * 64, 7)


PINS = tuple(
    pin(name, platform.name) for platform in PLATFORMS for name in ("libc6", f"python{recipe.PYTHON}-minimal")
)
SOURCE = Source(
    lock=Lock("trixie", PINS),
    requirements=b"a==1",
    application={"ccm/x.py": File(b"1")},
    project=Project("p", "1", "what it is", "MIT"),
    builder="b",
    created=0,
)


def keys(source):
    platforms = [(source.base_key(p), source.dependencies_key(p)) for p in PLATFORMS]
    return {*(key for pair in platforms for key in pair), source.application_key(), source.reference()}


BASES, DEPENDENCIES = (
    {key(SOURCE, p) for p in PLATFORMS} for key in (Source.base_key, Source.dependencies_key)
)


def test_changes_of_a_source_keep_the_keys_of_other_layers():
    def kept(**change):
        return keys(SOURCE) & keys(replace(SOURCE, **change))

    assert kept(application={"ccm/x.py": File(b"2")}) == BASES | DEPENDENCIES
    assert kept(requirements=b"a==2") == BASES | {SOURCE.application_key()}
    assert kept(builder="c") == set()
    assert kept(created=1) == keys(SOURCE)


def test_a_package_of_one_platform_changes_the_image_for_all_but_not_the_layers_of_others():
    changed = tuple(pin(p.name, "arm64", "2") if p == pin("libc6", "arm64") else p for p in PINS)
    other = replace(SOURCE, lock=Lock("trixie", changed))
    assert other.base_key(AMD64) == SOURCE.base_key(AMD64)
    assert other.base_key(ARM64) != SOURCE.base_key(ARM64)
    assert other.reference() != SOURCE.reference()


def test_one_python_for_all_platforms():
    changed = (pin(f"python{recipe.PYTHON}-minimal", "arm64", "2"), *PINS[:2])
    with pytest.raises(LockFileError, match="versions of Python: 1, 2"):
        _ = replace(SOURCE, lock=Lock("trixie", changed)).python


@given(parts=st.lists(st.binary(max_size=6), max_size=4), cut=st.integers(0, 6))
def test_borders_between_parts_count(parts, cut):
    moved = [parts[0][:cut], parts[0][cut:], *parts[1:]] if parts else [b""]
    assert digest(parts) != digest(moved)


def test_the_source_is_the_ccm_and_its_entry_points():
    source = read_source(environment={"SOURCE_DATE_EPOCH": "7"})
    assert source.created == 7
    assert b"--hash=sha256:" in source.requirements
    assert "ccm/__init__.py" in source.application
    assert not any("__pycache__" in path or path.startswith("sandbox") for path in source.application)
    (entry_points,) = [file for path, file in source.application.items() if path.endswith("entry_points.txt")]
    assert b"[ccm.clouds]" in entry_points.content


@pytest.mark.parametrize("text", ["abc", "-5", "1.5", "1" * 40])
def test_what_is_no_time_is_refused_by_the_variables_name(text):
    with pytest.raises(VariableError, match=f"SOURCE_DATE_EPOCH='{text}': must be"):
        read_source(environment={"SOURCE_DATE_EPOCH": text})


def test_a_lock_file_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "debian.lock"
    lockfile.write("trixie", reversed(PINS), path)
    assert lockfile.read(path) == Lock("trixie", tuple(sorted(PINS)))


@pytest.mark.parametrize("content", ["", "[]", '{"suite": "trixie", "packages": [{"name": "x"}]}'])
def test_an_invalid_lock_file_names_the_command_that_writes_it(tmp_path, content):
    path = tmp_path / "debian.lock"
    path.write_text(content)
    with pytest.raises(LockFileError, match=r"debian\.lock can't be read.*\./dev lock"):
        lockfile.read(path)
