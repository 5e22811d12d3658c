"""What the image is made of, as a CycloneDX document: https://cyclonedx.org/docs/1.6/json/."""

import io
import json
import tarfile
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from email.parser import Parser
from typing import Any

import zstandard
from packageurl import PackageURL

from image import recipe
from image.layer import MEDIA_TYPE
from image.lockfile import Pin
from image.oci import Image
from image.platforms import Platform
from image.tree import File, Tree

_NAMESPACE = uuid.UUID("5f6d4f0c-3d1c-5c3e-9d0b-7a0c1c1f6f0e")


def document(
    project: tuple[str, str], platform: Platform, pins: Iterable[Pin], site: Tree, epoch: int
) -> bytes:
    """The document of one platform's image; the same content gives the same bytes."""
    name, version = project
    components = [*map(_debian, pins), *_python(site)]
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "container",
                "name": name,
                "version": version,
                "properties": [{"name": "architecture", "value": platform.name}],
            },
        },
        "components": sorted(components, key=lambda component: component["purl"]),
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, sort_keys=True, indent=1).encode()


def inside(image: Image) -> bytes:
    """The document that an image has in it."""
    for blob in image.blobs:
        if blob.media_type == MEDIA_TYPE:
            plain = zstandard.ZstdDecompressor().decompressobj().decompress(blob.content)
            with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
                if recipe.SBOM in tar.getnames():
                    found = tar.extractfile(recipe.SBOM)
                    assert found is not None
                    return found.read()
    raise AssertionError(f"every image has {recipe.SBOM}")


def _debian(pin: Pin) -> dict[str, Any]:
    qualifiers = {"arch": pin.architecture, "distro": recipe.SUITE}
    purl = PackageURL("deb", "debian", pin.name, pin.version, qualifiers).to_string()
    hashes = [{"alg": "SHA-256", "content": pin.sha256}]
    return _component(pin.name, pin.version, purl) | {"hashes": hashes}


def _python(site: Tree) -> Iterable[dict[str, Any]]:
    for path, entry in site.items():
        if path.endswith(".dist-info/METADATA") and path.count("/") == 1 and isinstance(entry, File):
            fields = Parser().parsestr(entry.content.decode(), headersonly=True)
            name, version = fields["Name"], fields["Version"]
            found_license = fields["License-Expression"]
            found = {"licenses": [{"expression": found_license}]} if found_license else {}
            yield _component(name, version, PackageURL("pypi", None, name, version).to_string()) | found


def _component(name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
