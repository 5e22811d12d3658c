import hashlib
import lzma
import shutil
from datetime import UTC, datetime

import pytest

from image import recipe, resolve
from image.errors import ContentError, LockFileError, SignatureError
from image.lockfile import Lock, Pin
from image.mirror import Mirror
from image.platforms import PLATFORMS

LIST = """Package: base
Version: 1
Depends: lib (>= 2) | other, left-out
Pre-Depends: libc:any

Package: lib
Version: 1.9-1

Package: lib
Version: 1.10-1
Depends: base

Package: libc
Version: 1
"""


def test_the_newest_versions_of_several_lists_with_dependencies():
    newer = "Package: lib\nVersion: 1.10-1+deb13u1\n"
    chosen = resolve.closure(resolve.read_index([LIST, newer]), ["base"], {"left-out"})
    versions = {name: package["Version"] for name, package in chosen.items()}
    assert versions == {"base": "1", "lib": "1.10-1+deb13u1", "libc": "1"}
    with pytest.raises(LockFileError, match="no package named left-out"):
        resolve.closure(resolve.read_index([LIST]), ["base"], ())


def test_pins_never_go_back():
    def pin(name, version):
        return Pin(name, "amd64", version, "p", "0", 1)

    before = Lock("trixie", (pin("a", "1.10-1"), pin("b", "1:1-1")))
    after = [pin("a", "1.9-1"), pin("b", "1:1-1"), pin("c", "1")]
    assert resolve.gone_back(before, after) == [after[0]]


NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
TIMES = "Date: Fri, 20 Nov 2026 02:11:10 UTC\nValid-Until: Fri, 27 Nov 2026 02:11:10 UTC\n"


def archive(tmp_path, spoil="", security="trixie-security", times=TIMES):
    """A mirror of an archive with the image's roots, each list signed by a word."""
    stanza = "Package: {}\nVersion: 1\nFilename: pool/{}.deb\nSHA256: 00\nSize: 5\n"
    packages = lzma.compress("\n".join(stanza.format(name, name) for name in recipe.ROOTS).encode())
    files = {}
    for suite in ("trixie", "trixie-updates", "trixie-security"):
        lines = []
        for platform in PLATFORMS:
            path = f"main/binary-{platform.name}/Packages.xz"
            files[f"http://a/debian/dists/{suite}/{path}"] = packages + spoil.encode()
            lines.append(f" {hashlib.sha256(packages).hexdigest()} {len(packages)} {path}\n")
        codename = security if suite == "trixie-security" else suite
        release = f"signed Suite: x\nCodename: {codename}\n{times}SHA256:\n" + "".join(lines)
        files[f"http://a/debian/dists/{suite}/InRelease"] = release.encode()
    return Mirror(("http://a/debian",), lambda address, _most: files.get(address), tmp_path)


def verify(signed):
    if not signed.startswith(b"signed "):
        raise SignatureError("not signed")
    return signed.removeprefix(b"signed ")


def newest_pins(mirror, verify, now):
    return resolve.newest_pins(resolve.indexes(mirror, verify, now), recipe.ROOTS, recipe.LEFT_OUT)


def test_pins_of_every_platform(tmp_path):
    pins = newest_pins(archive(tmp_path), verify, NOW)
    assert {pin.architecture for pin in pins} == {"amd64", "arm64"}
    assert {pin.name for pin in pins} == {*recipe.ROOTS}
    assert pins[0].size == 5
    endless = archive(tmp_path, times=TIMES.splitlines()[0] + "\n")
    assert newest_pins(endless, verify, NOW) == pins, "a stable release is valid without an end"


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"spoil": "x"}, ContentError, "package list for suite trixie"),
        ({"security": "trixie"}, SignatureError, r"trixie-security contains another suite: trixie$"),
        ({"times": TIMES.replace("27 Nov", "21 Nov")}, SignatureError, "expired on 2026-11-21 02:11 UTC"),
        (
            {"times": TIMES.replace("20 Nov", "23 Nov")},
            SignatureError,
            "Fri, 23 Nov 2026 .* 2026-11-22 08",
        ),
        ({"times": TIMES.replace("20 Nov", "soon")}, SignatureError, "in the field Date: 'Fri, soon 2026"),
        ({"times": ""}, SignatureError, "no date"),
    ],
)
def test_changed_other_and_outdated_lists_are_not_believed(tmp_path, changed, error, said):
    """Somebody who plays back an old one, though Debian signed it, keeps security updates from us."""
    with pytest.raises(error, match=said):
        newest_pins(archive(tmp_path, **changed), verify, NOW)


def test_unsigned_packages_are_rejected(tmp_path):
    def refuse(_signed):
        raise SignatureError("not by Debian")

    with pytest.raises(SignatureError):
        newest_pins(archive(tmp_path), refuse, NOW)


def test_debians_keys_did_not_sign_this():
    if not shutil.which("gpgv") or not any(path.is_file() for path in resolve.KEYRINGS):
        pytest.skip("gpgv or the keyring of Debian is not here")
    with pytest.raises(SignatureError, match="no valid signature"):
        resolve.gpgv()(b"-----BEGIN PGP SIGNED MESSAGE-----\n\nSuite: trixie\n")
