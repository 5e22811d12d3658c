import ssl
from pathlib import Path

import pytest
import trustme

from image.authorities import by_hash
from image.tree import File


def agree(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Shake hands; raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def folder(path: Path, authorities: list[trustme.CA]) -> Path:
    for name, entry in by_hash(one.cert_pem.bytes() for one in authorities).items():
        assert isinstance(entry, File)
        (path / name).write_bytes(entry.content)
    return path


def serving(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("organization", "unit"),
    [
        ("Example", "Roots"),
        ("  Ends   in t and has\tspaces t", "NNN"),
        ("Főtanúsítvány ÄÖÜ", "Grüße"),
        ("long " * 12, "x" * 64),
    ],
)
def test_an_authority_is_found_by_its_name(tmp_path: Path, organization: str, unit: str) -> None:
    authority = trustme.CA(organization_name=organization, organization_unit_name=unit)
    client = ssl.create_default_context(capath=folder(tmp_path, [trustme.CA(), authority]))
    agree(client, serving(authority))


def test_of_two_with_one_name_both_are_found(tmp_path: Path) -> None:
    names = {"organization_name": "Same", "organization_unit_name": "Same"}
    both = [trustme.CA(**names), trustme.CA(**names)]
    client = ssl.create_default_context(capath=folder(tmp_path, both))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".0", ".1"]
    for authority in both:
        agree(client, serving(authority))


def test_who_is_not_in_the_folder_is_not_trusted(tmp_path: Path) -> None:
    client = ssl.create_default_context(capath=folder(tmp_path, [trustme.CA()]))
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(client, serving(trustme.CA()))
