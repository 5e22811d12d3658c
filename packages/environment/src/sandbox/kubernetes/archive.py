"""One-layer container images from plain files, as docker-archive: no registry, no container engine."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image.platforms import of_machine


@dataclass(frozen=True)
class ContainerImage:
    """What goes into an image."""

    name: str  # full reference, such as ``docker.io/library/alpine:3``
    files: Mapping[str, Path]  # absolute path in the image to the file on this machine; all get mode 755
    entrypoint: Sequence[str]  # program and arguments
    user: str = ""  # numeric ``uid:gid`` to run as; root when empty
    # Absolute path in the image to the one that it is a symbolic link to.
    links: Mapping[str, str] = field(default_factory=dict)


def write_archive(image: ContainerImage, target: Path) -> None:
    """Write an image as ``docker save`` would; the same files give the same bytes."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        # Programs that keep temporary files, and every user, find the folder that they expect.
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        for path, source in sorted(image.files.items()):
            _add(tar, path.lstrip("/"), source.read_bytes(), 0o755)
        for path, destination in sorted(image.links.items()):
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, destination
            tar.addfile(link)
    layer_digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(_config(image, layer_digest), sort_keys=True).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = f"{layer_digest}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [image.name], "Layers": [layer_name]}]
    with tarfile.open(target, "w") as tar:
        _add(tar, config_name, config, 0o644)
        _add(tar, layer_name, layer.getvalue(), 0o644)
        _add(tar, "manifest.json", json.dumps(manifest).encode(), 0o644)


def _config(image: ContainerImage, layer_digest: str) -> dict[str, object]:
    machine = platform.machine()
    known = of_machine(machine)
    return {
        "architecture": known.name if known else machine,
        "os": "linux",
        "config": {"Entrypoint": list(image.entrypoint), "Env": ["PATH=/:/bin"], "User": image.user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created_by": "ccm-from-scratch"}],
    }


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))
