import pytest

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


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/python3.13", True),
        ("usr/bin/pdb3.13", False),
        ("usr/lib/python3.13/asyncio/base_events.py", True),
        ("usr/lib/python3.13/unittest/case.py", False),
        ("usr/lib/python3.13/lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so", True),
        ("usr/lib/python3.13/lib-dynload/readline.cpython-313-aarch64-linux-gnu.so", False),
        ("usr/lib/x86_64-linux-gnu/libssl.so.3", True),
        ("usr/lib/aarch64-linux-gnu/gconv/UTF-16.so", False),
        ("usr/share/common-licenses/GPL-3", True),
        ("usr/share/man/man1/python3.1.gz", False),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libc6/NEWS.gz", False),
        ("etc/ssl/openssl.cnf", True),
        ("var/log/apt", False),
    ],
)
def test_what_of_debian_is_kept(path, kept):
    assert recipe.is_kept(path) is kept


@pytest.mark.parametrize(
    ("path", "dead"),
    [
        ("kubernetes/client/models/v1_pod.py", True),
        ("kubernetes/aio/client/api/core_v1_api.py", True),
        ("kubernetes/aio/client/models/__init__.py", False),
        ("kubernetes/aio/client/api_client.py", False),
        ("hcloud/servers/client.py", False),
        ("aiohttp/_websocket/mask.pyx", True),
        ("aiohttp-3.dist-info/RECORD", True),
        ("aiohttp-3.dist-info/METADATA", False),
        ("aiohttp-3.dist-info/licenses/LICENSE.txt", False),
        ("bin/httpx", True),
        ("yarl/__pycache__/x.pyc", True),
        ("dateutil/test/test_x.py", True),
        ("pydantic/api.py", False),
    ],
)
def test_dead_weight(path, dead):
    assert recipe.is_dead_weight(path) is dead
