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


KEPT = """
usr/bin/python3.13
usr/lib/python3.13/asyncio/base_events.py
usr/lib/python3.13/lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so
usr/lib/x86_64-linux-gnu/libssl.so.3 usr/share/common-licenses/GPL-3
usr/share/doc/libc6/copyright etc/ssl/openssl.cnf
"""
LEFT = """
usr/bin/pdb3.13 usr/lib/python3.13/unittest/case.py
usr/lib/python3.13/lib-dynload/readline.cpython-313-aarch64-linux-gnu.so
usr/lib/aarch64-linux-gnu/gconv/UTF-16.so usr/share/man/man1/python3.1.gz
usr/share/doc/libc6/NEWS.gz var/log/apt
"""


def test_what_of_debian_is_kept():
    assert [path for path in KEPT.split() if not recipe.is_kept(path)] == []
    assert [path for path in LEFT.split() if recipe.is_kept(path)] == []


DEAD = """
kubernetes/client/models/v1_pod.py kubernetes/aio/client/api/core_v1_api.py
aiohttp/_websocket/mask.pyx aiohttp-3.dist-info/RECORD bin/httpx
yarl/__pycache__/x.pyc dateutil/test/test_x.py
"""
ALIVE = """
kubernetes/aio/client/models/__init__.py kubernetes/aio/client/api_client.py hcloud/servers/client.py
aiohttp-3.dist-info/METADATA aiohttp-3.dist-info/licenses/LICENSE.txt pydantic/api.py
"""


def test_dead_weight():
    assert [path for path in DEAD.split() if not recipe.is_dead_weight(path)] == []
    assert [path for path in ALIVE.split() if recipe.is_dead_weight(path)] == []
