import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from fake_programs import programs

from ccm_pulumi.lib.errors import InfraError
from image.platforms import ARM64
from image.source import read_source
from infra.ccm_image import import_image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # the image may have to be built


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """What the server at the other end is: its kernel's word for its processor is an argument."""

    def set_up(processor: str) -> Path:
        imported = tmp_path / "imported.tar"
        script = f"""case "$*" in
"ctr images import -") exec cat > {imported};;
"ctr images ls -q") exec cat {tmp_path}/images;;
"ctr images label "*) echo "$4 $5" >> {tmp_path}/labels;;
esac"""
        programs(tmp_path, uname=f"echo {processor}", k3s=script)
        (tmp_path / "images").touch()
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


async def test_the_kubelet_may_remove_former_images_but_not_the_current_local_one(host, machine, tmp_path):
    machine(ARM64.machine)
    source = read_source()
    name = source.reference().rpartition(":")[0]
    there = [f"{name}:0123456789ab", source.reference(), f"{name}-tools:1", "registry.k8s.io/pause:3.10"]
    (tmp_path / "images").write_text("".join(f"{image}\n" for image in there))
    await import_image(host, source)
    assert (tmp_path / "labels").read_text().splitlines() == [
        f"{there[0]} io.cri-containerd.pinned=",
        f"{there[1]} io.cri-containerd.pinned=pinned",
    ]


async def test_a_processor_that_no_image_is_built_for_is_named(host, machine):
    machine("riscv64")
    with pytest.raises(InfraError, match=r"riscv64, but the CCM's image is built only for x86_64, aarch64"):
        await import_image(host, read_source())
