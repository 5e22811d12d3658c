"""What the tests of the image share: Debian packages that were never at Debian."""

import io
import tarfile

import pytest
import trustme

AUTHORITIES = (trustme.CA(), trustme.CA(organization_name="Second"))


def tar(members: list[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:xz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                entry = tarfile.TarInfo(member[0])
                entry.size = len(member[1])
                archive.addfile(entry, io.BytesIO(member[1]))
    return target.getvalue()


def deb(name: str, members: list[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    """A package as dpkg-deb writes it: https://manpages.debian.org/deb.5."""
    control = f"Package: {name}\nVersion: 1-2\nArchitecture: amd64\nDescription: made up\n".encode()
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar([("./control", control)]),
        "data.tar.xz": tar(members),
    }
    content = b"!<arch>\n"
    for part, data in parts.items():
        content += f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
        content += data + b"\n" * (len(data) % 2)
    return content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.fixture
def a_package() -> bytes:
    program = tarfile.TarInfo("./lib/empty-program")
    program.mode = 0o755
    return deb(
        "sample",
        [
            ("./usr/lib/python3.13/re.py", b"pattern"),
            program,
            link("./usr/lib/same.py", "./usr/lib/python3.13/re.py", tarfile.LNKTYPE),
            link("./usr/share/doc/sample", "other"),
            ("./usr/share/doc/more/copyright", b"free"),
            ("./usr/share/doc/more/changelog.gz", b"long"),
            ("./usr/share/ca-certificates/mozilla/B.crt", AUTHORITIES[1].cert_pem.bytes() + b"\n"),
            ("./usr/share/ca-certificates/mozilla/A.crt", AUTHORITIES[0].cert_pem.bytes().rstrip()),
            ("./usr/bin/openssl", b"program"),
        ],
    )
