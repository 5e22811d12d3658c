"""Layers put together as an OCI image in one file, as ``ctr images import`` and ``docker load`` take it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.oci.layer import Layer

_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
TAG_LENGTH = 12


@dataclass(frozen=True)
class Image:
    """An image's documents, without its layers.

    Attributes:
        reference: Full name; its tag is the beginning of the manifest's digest, so that other content is
            another name and a Deployment rolls.
        digest: Of the manifest, in hexadecimal digits.
    """

    reference: str
    digest: str
    config: bytes
    manifest: bytes


def describe(repository: str, layers: Sequence[Layer], settings: Mapping[str, Any], epoch: int) -> Image:
    """The documents of an image for amd64.

    Args:
        repository: Name without a tag.
        layers: Lowest first.
        settings: User, entry point and so on, as in an OCI image configuration's ``config``.
        epoch: Time of creation, in seconds since 1970.
    """
    config = _json(
        {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": "amd64",
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, _sha256(config), len(config)),
            "layers": [_descriptor(_LAYER_TYPE, layer.digest, layer.size) for layer in layers],
        }
    )
    digest = _sha256(manifest)
    return Image(f"{repository}:{digest[:TAG_LENGTH]}", digest, config, manifest)


def write_archive(image: Image, layers: Sequence[Layer], target: Path) -> None:
    """Writes the image as an OCI layout in a tar file."""
    names = {
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference.rpartition(":")[2],
    }
    entry = {**_descriptor(_MANIFEST_TYPE, image.digest, len(image.manifest)), "annotations": names}
    index = _json({"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": [entry]})
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        _add(tar, f"blobs/sha256/{image.digest}", image.manifest)
        _add(tar, f"blobs/sha256/{_sha256(image.config)}", image.config)
        for layer in layers:
            _add(tar, f"blobs/sha256/{layer.digest}", layer.path.read_bytes())


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, io.BytesIO(content))
