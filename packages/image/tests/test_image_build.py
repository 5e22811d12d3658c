import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
import zstandard

from image import recipe
from image.build import build, cache_folder
from image.layer import unpack
from image.mirror import VARIABLE, open_mirror
from image.oci import Image
from image.platforms import PLATFORMS, of_machine
from image.source import ROOT, read_source
from tests.child_processes import run, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

REGISTRIES = ("UV_", "PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
BUILD = """
import os, re, sys
from pathlib import Path
from image.build import build
from image.platforms import AMD64
from image.source import read_source
(image,) = build(read_source(), Path(sys.argv[1]), [AMD64])
print(image.manifest.digest)
"""
ON_MACOS = """
import os, platform, sys
import debian.debfile, packageurl, requests, uv, zstandard  # as macOS would have them
uv.find_uv_bin()
ABSENT = "O_TMPFILE copy_file_range eventfd memfd_create pipe2 posix_fallocate sched_getaffinity setns splice"
for name in ABSENT.split():
    if hasattr(os, name):
        delattr(os, name)
for name in ("mknod", "chown", "fchown", "lchown", "setxattr"):  # for root, or for Linux
    delattr(os, name)
sys.platform, platform.system, platform.machine = "darwin", lambda: "Darwin", lambda: "arm64"
def refuse(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/", "/etc/apt/")):
        raise FileNotFoundError(arguments[0])
sys.addaudithook(refuse)
"""


def linked_cache(target: Path) -> Path:
    """An empty cache, but for packages: what is fetched is compared with its hash anyway."""
    packages = cache_folder() / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    target.mkdir()
    (target / "packages").symlink_to(packages)
    return target


def files(image: Image) -> dict[str, bytes]:
    found = {}
    for blob in image.blobs[1:]:
        plain = zstandard.ZstdDecompressor().decompress(blob.content)
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}
    return found


@pytest.fixture(scope="module")
def images():
    return build(read_source(), cache_folder(), PLATFORMS)


@pytest.fixture
def tree(tmp_path):
    """Another clone: what an image is made of."""
    tree = tmp_path / "another clone"
    for folder in ("ccm", "packages/image"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def digest_in_child(tree, cache, program=BUILD, command=(sys.executable,), **environment):
    """What a build in another process, folder and time zone makes, with rights for nobody else."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(REGISTRIES)}
    variables |= {"PATH": os.environ["PATH"], "TZ": "Asia/Tokyo", "LANG": "C", "HOME": str(cache)}
    variables["PYTHONPATH"] = str(tree / "packages/image/src")
    words = [*command, "-c", program, str(cache)]
    done = run(words, timeout=900, cwd=tree, env=variables | environment, umask=0o077)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.nightly
def test_another_folder_and_an_empty_cache_make_the_same_image_without_root(images, tree, tmp_path):
    """Nobody in a user namespace has none of root's powers; who is not root needs none."""
    as_other_user = ("unshare", "--user")
    if not shutil.which("unshare") or run([*as_other_user, "true"]).returncode:
        as_other_user = ()
    digest = digest_in_child(tree, linked_cache(tmp_path / "cache"), command=(*as_other_user, sys.executable))
    assert digest == images[0].manifest.digest


@pytest.fixture
def python(images, tmp_path):
    """A folder with a Python of the image's version as another system would have it installed."""
    platform = of_machine(os.uname().machine)
    lowest = images[PLATFORMS.index(platform)].blobs[1]
    root = tmp_path / "python"
    unpack(lowest.content, root)
    program = root / recipe.PROGRAM
    inner = program.rename(program.with_name("inner"))
    start = f'{root / platform.loader} --argv0 "$0" --library-path {root / "usr/lib" / platform.triplet}'
    script(program, f'exec {start} {inner} "$@"')
    (program.parent / "python").symlink_to(program.name)
    return program.parent


KNOWN = """
import sys
sys.path.insert(0, sys.argv[1])
import compile_here
def make():
    source = b"def outer():\\n    class Inner:\\n        pass\\n    return Inner\\n"
    return compile_here.compiled("opt/x.py", source, docstrings=True)
alone = make()
there = [sys.intern("".join(parts)) for parts in (["outer.<loc", "als>.Inner"], ["ou", "ter"], ["Inn", "er"])]
print(make() == alone)
"""


def test_what_a_python_has_loaded_does_not_change_what_it_compiles(python):
    """It has an object for each of its names, and uses those."""
    command = [python / "python", "-I", "-S", "-B", "-c", KNOWN, ROOT / "packages/image/src/image"]
    done = run(command, timeout=300)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.nightly
def test_without_what_only_linux_has_it_is_the_same_image(images, tree, tmp_path, python):
    """As near as a test on Linux comes to macOS: uv's Python, no apt, none of Linux's calls and folders."""
    found = {"PATH": str(python), VARIABLE: open_mirror(tmp_path).roots[0]}
    digest = digest_in_child(tree, linked_cache(tmp_path / "cache"), ON_MACOS + BUILD, **found)
    assert digest == images[0].manifest.digest


def test_each_is_small_enough_and_no_two_files_differ_in_the_case_of_letters_only(images):
    """They would be one on a Mac's disk, where uv unpacks wheels."""
    for image in images:
        found = files(image)
        assert image.size < 35 * 2**20
        assert sum(map(len, found.values())) < 100 * 2**20
        paths = [path for path in found if path.startswith(recipe.SITE)]
        assert len({path.casefold() for path in paths}) == len(paths)


def test_scanners_find_what_is_in_it(images):
    found = files(images[1])
    assert {"usr/share/doc/libc6/copyright", "usr/share/common-licenses/GPL-3"} <= found.keys()
    assert any(path.endswith("/licenses/LICENSE.txt") for path in found)
    assert b"Package: libc6\n" in found["var/lib/dpkg/status.d/libc6"]
    purls = [component["purl"] for component in json.loads(found[recipe.SBOM])["components"]]
    assert any(purl.startswith("pkg:pypi/aiohttp@") for purl in purls)


def test_every_module_of_ours_is_compiled(images):
    found = files(images[0])
    ours = [path for path in found if path.startswith(f"{recipe.APPLICATION}/ccm/") and path.endswith(".py")]
    for path in ours:
        folder, _, name = path.rpartition("/")
        compiled = found[f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-313.pyc"]
        assert compiled[4:8] == b"\1\0\0\0"  # by hash, and never compared
