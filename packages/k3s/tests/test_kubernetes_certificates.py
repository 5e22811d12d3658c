import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from k3s_standin.certificates import (
    Authority,
    Certificate,
    CertificateError,
    alternative_names,
    new_request,
    request_subject,
    subject,
)
from k3s_standin.pki import ADMIN, SERVING, Pki


@pytest.fixture
def authority(tmp_path):
    authority = Authority(tmp_path, "ca")
    authority.create()
    return authority


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_users_certificate(authority, tmp_path):
    authority.ensure(Certificate("admin", "system:admin", "system:masters"))
    certificate = load(tmp_path / "admin.crt")
    certificate.verify_directly_issued_by(load(tmp_path / "ca.crt"))
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:admin"
    assert certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert (tmp_path / "admin.key").stat().st_mode & 0o777 == 0o600


def test_a_request_is_signed_with_its_own_key(authority, tmp_path):
    request = new_request("system:node:a", "system:nodes", tmp_path / "a.key")
    assert request_subject(request) == "CN=system:node:a,O=system:nodes"
    signed = x509.load_pem_x509_certificate(authority.sign(request).encode())
    asked = x509.load_pem_x509_csr(request.encode())
    assert signed.public_key() == asked.public_key()
    signed.verify_directly_issued_by(load(tmp_path / "ca.crt"))


def test_a_request_has_one_subject_and_its_own_signature(tmp_path):
    request = new_request("a\nsubject=CN=system:node:b", "", tmp_path / "a.key")
    assert request_subject(request) == r"CN=a\0Asubject=CN=system:node:b"
    assert subject("a/O=system:masters") == r"/CN=a\/O=system:masters"
    assert alternative_names(["a", "10.0.0.1", "::1", "a"]) == "DNS:a,IP:10.0.0.1,IP:::1"
    request = new_request("a", "", tmp_path / "a.key").splitlines()
    request[2] = request[2][::-1]
    with pytest.raises(CertificateError):
        request_subject("\n".join(request))


def test_a_second_start_keeps_every_certificate(tmp_path):
    Pki(tmp_path).ensure(["kubernetes"])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    Pki(tmp_path).ensure(["kubernetes"])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    Pki(tmp_path).ensure(["kubernetes", "new"])
    changed = {p.name for p in tmp_path.iterdir() if before.get(p) != p.read_bytes()}
    assert changed == {f"{SERVING}.crt", f"{SERVING}.key", f"{SERVING}.json"}
    assert load(tmp_path / f"{ADMIN}.crt").issuer == load(tmp_path / "client-ca.crt").subject
