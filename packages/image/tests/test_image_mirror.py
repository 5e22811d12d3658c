import hashlib
from http.server import BaseHTTPRequestHandler

import pytest

from image import mirror
from image.errors import ContentError, MirrorError, PackageGoneError
from image.lockfile import Pin
from image.mirror import Mirror, debian_roots, open_mirror, web_get
from tests.http_server import Json, serving

CONTENT = b"a package"
PIN = Pin("libc6", "arm64", "2.41-1", "pool/libc6.deb", hashlib.sha256(CONTENT).hexdigest(), 9)


def of(files, tmp_path):
    asked = []

    def get(address, most):
        asked.append(address)
        content = files.get(address)
        if content is not None and len(content) > most:
            raise OSError(f"it has more than {most} bytes")
        return content

    return Mirror(("http://a/debian", "http://a/debian-security"), get, tmp_path / "packages"), asked


def test_a_package_is_fetched_once_and_again_for_a_spoilt_cache(tmp_path):
    place, asked = of({"http://a/debian-security/pool/libc6.deb": CONTENT}, tmp_path)
    assert [place.package(PIN), place.package(PIN)] == [CONTENT, CONTENT]
    assert asked == ["http://a/debian/pool/libc6.deb", "http://a/debian-security/pool/libc6.deb"]
    (tmp_path / "packages" / PIN.sha256).write_bytes(b"half")
    assert place.package(PIN) == CONTENT
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (None, PackageGoneError, r"libc6 2\.41-1 \(arm64\).*\./dev lock"),
        (b"evil", ContentError, PIN.sha256),
        (CONTENT + b"!", MirrorError, r"libc6\.deb: it has more than 9 bytes"),
    ],
)
def test_only_the_pinned_content_is_used(tmp_path, content, error, said):
    place, _ = of({"http://a/debian/pool/libc6.deb": content}, tmp_path)
    with pytest.raises(error, match=said):
        place.package(PIN)
    assert not (tmp_path / "packages").exists()


def test_an_archive_that_does_not_answer_is_passed_over(tmp_path):
    def get(address, _most):
        if address.startswith("http://away/"):
            raise ConnectionError("refused")
        return b"a list" if address.endswith("/x") else None

    place = Mirror(("http://away/debian", "http://a/debian"), get, tmp_path)
    assert place.fetch("x", 9) == b"a list"
    with pytest.raises(MirrorError, match="refused"):
        place.fetch("y", 9)  # the one that is away may have it


def test_errors_of_a_mirror_have_no_password(tmp_path):
    def get(address, _most):
        raise OSError(f"500 for {address}")

    with pytest.raises(MirrorError, match=r"a\.example\.org/debian/x.*CCMFS_DEBIAN_MIRROR") as caught:
        Mirror(("https://me:secret@a.example.org/debian",), get, tmp_path).fetch("x", 9)
    assert "secret" not in str(caught.value)


def test_only_debians_own_archives_are_mirrors():
    stanzas = """Types: deb
# a comment
URIs: http://mirror.example.org/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: https://other.example.org/debian-security
Suites: bookworm-security
Components: main contrib

Types: deb-src
URIs: http://sources.example.org/debian
Suites: bookworm
Components: main

Types: deb
URIs: https://linux.example.com/debian
Suites: bookworm
Components: stable
"""
    assert [*debian_roots(stanzas)] == [
        "http://mirror.example.org/debian",
        "https://other.example.org/debian-security",
    ]
    lines = (
        "deb [signed-by=/x.gpg] http://one.example.org/debian trixie main\n"
        "# deb http://not.example.org/debian trixie main\n"
        "deb http://ubuntu.example.org/ubuntu noble main\n"
    )
    assert [*debian_roots(lines)] == ["http://one.example.org/debian"]


def test_the_environment_names_a_mirror_and_without_one_the_variable_is_named(tmp_path, monkeypatch):
    found = open_mirror(tmp_path, {mirror.VARIABLE: "https://deb.example.org/debian/"})
    assert found.roots == ("https://deb.example.org/debian", "https://deb.example.org/debian-security")
    monkeypatch.setattr(mirror, "_roots_of_apt", lambda: iter(()))
    with pytest.raises(MirrorError, match=r"no Debian mirror.*CCMFS_DEBIAN_MIRROR"):
        open_mirror(tmp_path, {})


@pytest.fixture
def web():
    """Answers with the next of these statuses each time."""
    statuses = []

    class Handler(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(statuses.pop(0), 17)

    with serving(Handler) as port:
        yield statuses, f"http://127.0.0.1:{port}/x"


def test_a_server_in_trouble_is_asked_again(web):
    statuses, address = web
    statuses += [503, 500, 200]
    pauses = []
    assert web_get({}, pauses.append)(address, 9) == b"17"
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    statuses += [404]
    assert web_get({}, pauses.append)(address, 9) is None


def test_a_file_without_an_end_is_given_up(web):
    statuses, address = web
    statuses += [200]
    with pytest.raises(OSError, match="larger than 1 bytes"):
        web_get({}, lambda _: None)(address, 1)
