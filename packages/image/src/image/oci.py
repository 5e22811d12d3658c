"""Documents of OCI images and indexes, and layouts as ``ctr images import`` and ``skopeo`` take them.

https://github.com/opencontainers/image-spec
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

from image.errors import LayoutError
from image.layer import MEDIA_TYPE, Layer
from image.platforms import Platform

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CONTAINERD_NAME = "io.containerd.image.name"
"""The annotation with the full name of an image in an OCI layout. containerd and Docker use this
annotation."""
REF_NAME = "org.opencontainers.image.ref.name"
"""The annotation with the tag of an image in an OCI layout."""

_CREATED = "org.opencontainers.image.created"


@dataclass(frozen=True)
class Blob:
    """Bytes that others name by their digest."""

    media_type: str
    content: bytes = field(repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Name of the content."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self) -> dict[str, Any]:
        """How another document names it."""
        return {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": len(self.content),
            **self.notes,
        }


@dataclass(frozen=True)
class Image:
    """An image for one platform: its manifest, and what that names."""

    manifest: Blob
    blobs: tuple[Blob, ...]

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(len(blob.content) for blob in self.blobs)


@dataclass(frozen=True)
class PlatformImages:
    """The images of several platforms under one name."""

    reference: str  # their full name on this machine
    index: Blob
    images: tuple[Image, ...]  # one per platform

    @property
    def below(self) -> list[Blob]:
        """All that the index names, and what that names."""
        return [blob for image in self.images for blob in (image.manifest, *image.blobs)]


def describe(
    platform: Platform,
    layers: Sequence[Layer],
    settings: Mapping[str, Any],
    labels: Mapping[str, str],
    epoch: int,
) -> Image:
    """The image of one platform, created ``epoch`` seconds after 1970; its lowest layer is the first."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {**labels, _CREATED: created}
    config = {
        "created": created,
        "architecture": platform.name,
        "os": "linux",
        "config": {**settings, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]},
    }
    blobs = [Blob(CONFIG_TYPE, _json(config)), *(Blob(MEDIA_TYPE, layer.content) for layer in layers)]
    head, *rest = (blob.descriptor() for blob in blobs)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": head,
        "layers": rest,
        "annotations": labels,
    }
    notes = {"platform": {"architecture": platform.name, "os": "linux"}}
    return Image(Blob(MANIFEST_TYPE, _json(manifest), notes), tuple(blobs))


def index_of(images: Iterable[Image], labels: Mapping[str, str]) -> Blob:
    """One name for the images of several platforms."""
    manifests = [image.manifest.descriptor() for image in images]
    content = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests, "annotations": labels}
    return Blob(INDEX_TYPE, _json(content))


def write_layout(named: Mapping[str, Blob], below: Iterable[Blob], target: IO[bytes]) -> None:
    """Write an OCI layout as one tar archive."""
    entries = [_named(reference, top) for reference, top in named.items()]
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    files["index.json"] = _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
    files |= {f"blobs/{blob.digest.replace(':', '/')}": blob.content for blob in [*named.values(), *below]}
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))


def read_layout(source: IO[bytes]) -> dict[str, Image]:
    """Read the images of an archive that :func:`write_layout` made of manifests, by full name."""
    try:
        with tarfile.open(fileobj=source, mode="r:") as tar:
            files = {member.name: _content(tar, member) for member in tar}
        entries = json.loads(files["index.json"])["manifests"]
        return {entry["annotations"][CONTAINERD_NAME]: _image(entry, files) for entry in entries}
    except (tarfile.TarError, LookupError, TypeError, ValueError) as error:
        raise LayoutError(f"the file isn't a complete OCI layout: {error!r}") from error


def labels_of(image: Image) -> dict[str, str]:
    """The labels that :func:`describe` was given for an image."""
    labels = json.loads(image.manifest.content).get("annotations") or {}
    return {name: value for name, value in labels.items() if name != _CREATED}


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


def _image(entry: Mapping[str, Any], files: Mapping[str, bytes]) -> Image:
    top = _blob(entry, files, {"platform": entry["platform"]})
    named = json.loads(top.content)
    return Image(top, tuple(_blob(one, files) for one in (named["config"], *named["layers"])))


def _blob(
    entry: Mapping[str, Any], files: Mapping[str, bytes], notes: Mapping[str, Any] | None = None
) -> Blob:
    blob = Blob(entry["mediaType"], files[f"blobs/{entry['digest'].replace(':', '/')}"], notes or {})
    if blob.digest != entry["digest"]:
        raise LayoutError(f"the digest of the blob {entry['digest']} doesn't match its name: {blob.digest}")
    return blob


def _named(reference: str, top: Blob) -> dict[str, Any]:
    names = {
        CONTAINERD_NAME: reference,
        REF_NAME: reference.rpartition(":")[2],
    }
    return {**top.descriptor(), "annotations": names}


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
