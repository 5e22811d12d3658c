"""The CCM's image on its way into a server, over a real SSH connection."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from image.platforms import ARM64
from image.source import read_source
from infra.errors import ImageBuildError
from infra.image import import_image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # the image may have to be built


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """What the server at the other end is: its kernel's word for its processor is an argument."""

    def set_up(processor: str) -> Path:
        program(tmp_path, "uname", f"echo {processor}")
        imported = tmp_path / "imported.tar"
        program(tmp_path, "k3s", f'case "$*" in "ctr images import -") exec cat > {imported};; esac')
        return imported

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return set_up


def documents(layout: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one manifest of an OCI layout, and the image's configuration."""
    with tarfile.open(fileobj=io.BytesIO(layout.read_bytes())) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}

    def read(descriptor: dict[str, Any]) -> dict[str, Any]:
        return json.loads(files["blobs/" + descriptor["digest"].replace(":", "/")])

    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = read(entry)
    return entry, read(manifest["config"])


async def test_a_server_with_an_arm_processor_gets_the_image_for_it_and_no_other(host, machine):
    imported = machine(ARM64.machine)
    source = read_source()
    await import_image(host, source)
    entry, configuration = documents(imported)
    assert entry["annotations"]["io.containerd.image.name"] == source.reference()
    assert configuration["architecture"] == "arm64"


async def test_a_processor_that_no_image_is_built_for_is_named(host, machine):
    machine("riscv64")
    with pytest.raises(ImageBuildError, match=r"riscv64; the CCM's image is built for x86_64, aarch64"):
        await import_image(host, read_source())
