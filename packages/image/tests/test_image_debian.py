from image import debian, recipe
from image.tree import File, Folder, Link


def test_a_package_is_read(a_package):
    package = debian.unpack(a_package)
    assert package.name == "sample"
    assert package.control.startswith(b"Status: install ok unpacked\nPackage: sample\nVersion: 1-2\n")
    assert package.files["usr/lib/python3.13/re.py"] == package.files["usr/lib/same.py"] == File(b"pattern")
    assert package.files["usr/share/doc/sample"] == Link("other")
    assert package.files["usr/lib/empty-program"] == File(b"", executable=True)


def test_the_lowest_layer_has_what_configuring_would_have_made(a_package):
    tree = debian.assemble([debian.unpack(a_package)])
    assert tree[recipe.CERTIFICATES].content.count(b"BEGIN CERTIFICATE") == 2
    assert tree["usr/lib/ssl/certs"] == Link("/etc/ssl/certs")
    names = [path for path in tree if path.startswith("etc/ssl/certs/") and path.endswith(".0")]
    assert sorted(tree[name].content for name in names) == sorted(
        part + b"-----END CERTIFICATE-----\n"
        for part in tree[recipe.CERTIFICATES].content.split(b"-----END CERTIFICATE-----\n")[:-1]
    )
    assert b"ccm:x:65532:65532:" in tree["etc/passwd"].content
    assert tree["lib"] == Link("usr/lib")
    assert tree["tmp"] == Folder(0o1777)
    assert tree["usr/bin/python3"] == Link("python3.13")


def test_licenses_and_the_list_of_packages_stay(a_package):
    tree = debian.assemble([debian.unpack(a_package)])
    assert tree["var/lib/dpkg/status.d/sample"].content.startswith(b"Status:")
    assert tree["usr/share/doc/more/copyright"] == File(b"free")
    assert tree["usr/share/doc/sample"] == Link("other")
    gone = {"usr/share/doc/more/changelog.gz", "usr/bin/openssl", "usr/share/ca-certificates/mozilla/A.crt"}
    assert not gone & tree.keys()
