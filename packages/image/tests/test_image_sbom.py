import json

import pytest

from image import lockfile, sbom
from image.platforms import ARM64
from image.tree import File

METADATA = b"Metadata-Version: 2.4\nName: some-package\nVersion: 1.2\nLicense-Expression: MIT\n\nText: x\n"
SITE = {
    "some_package-1.2.dist-info/METADATA": File(METADATA),
    "old-1.dist-info/METADATA": File(b"Metadata-Version: 2.1\nName: old\nVersion: 1\n"),
    "vendored/inner-1.dist-info/METADATA": File(METADATA),
}


def document(epoch=0):
    pins = lockfile.read().of(ARM64)
    return sbom.document(("ccm-from-scratch", "1"), ARM64, pins, SITE, epoch)


@pytest.mark.slow
def test_it_is_a_valid_cyclonedx_document():
    # seconds of work that every process of a test run would do, whichever tests it runs
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document().decode()) is None


def test_it_names_every_package_and_the_same_content_is_the_same_document():
    assert document() == document()
    assert json.loads(document())["serialNumber"] != json.loads(document(epoch=1))["serialNumber"]
    names = {component["purl"]: component for component in json.loads(document())["components"]}
    assert names["pkg:pypi/some-package@1.2"]["licenses"] == [{"expression": "MIT"}]
    assert "licenses" not in names["pkg:pypi/old@1"]
    (libc,) = [component for purl, component in names.items() if purl.startswith("pkg:deb/debian/libc6@")]
    assert libc["purl"].endswith("?arch=arm64&distro=trixie")
    assert len(names) == len(lockfile.read().of(ARM64)) + 2
