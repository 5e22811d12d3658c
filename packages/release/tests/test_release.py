import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ccm.version import VERSION
from release import commits, tested
from release.tested import Record
from sandbox.kubernetes.components import HELM
from sandbox.site import cache_directory
from tests.child_processes import run
from tests.prepared import programs
from tests.waiting import wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # Helm and the images' layers may be made first

TREE = Path(__file__).parents[3]
AUTHOR = {"NAME": "a", "EMAIL": "a@example.com", "DATE": "2026-11-22T12:00:00Z"}
SECONDS = 600
PKCS8 = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)


def start(
    clone: Path, *arguments: object, command: str = "release", **variables: str
) -> subprocess.Popen[str]:
    sources = os.pathsep.join(map(str, clone.glob("packages/*/src")))
    return subprocess.Popen(
        [sys.executable, "-m", "sandbox", command, *map(str, arguments)],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": sources, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def release(clone: Path, *arguments: object, **variables: str) -> tuple[int, str]:
    with start(clone, *arguments, **variables) as process:
        said, _ = process.communicate(timeout=SECONDS)
    return process.returncode, said


def index_in(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        return json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def helm() -> Path:
    return programs(HELM) / "helm"


@pytest.fixture(scope="module")
def clone(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which this tree, as it is now and with a changelog for its version, is committed."""
    root = tmp_path_factory.mktemp("one") / "clone"
    commits.copy(TREE, root)
    changelog = root / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("[Unreleased]", f"[{VERSION}] - 2026-11-22", 1))
    who = {f"GIT_{role}_{k}": value for role in ("AUTHOR", "COMMITTER") for k, value in AUTHOR.items()}
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all of it")):
        subprocess.run(["git", *command], cwd=root, env={**os.environ, **who}, check=True, timeout=60)
    return root


@pytest.fixture(scope="module")
def other_clone(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("two") / "a clone with another name"
    subprocess.run(["git", "clone", "-q", clone, root], check=True, timeout=60)
    (root / ".env").write_text("ignored by git, and nobody else's business")
    return root


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def made(clone: Path, key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A signed release."""
    place = tmp_path_factory.mktemp("made")
    hidden = serialization.BestAvailableEncryption(b"a password")
    (place / "key.pem").write_bytes(key.private_bytes(*PKCS8, hidden))
    variables = {"COSIGN_KEY": str(place / "key.pem"), "COSIGN_PASSWORD": "a password"}
    code, said = release(clone, "--output", place / "first", **variables)
    assert code == 0, said
    assert "a password" not in said
    return place / "first"


@pytest.fixture
def cache_of_another_machine(clone: Path, tmp_path: Path) -> Path:
    """For XDG_CACHE_HOME: what is built is this machine's, but other runs of the tests have passed."""
    own, cache = cache_directory(os.environ), tmp_path / "cache" / "ccm-from-scratch"
    cache.mkdir(parents=True)
    for name in ("toolchain", "ccm-image"):
        (cache / name).symlink_to(own / name)
    record = Record(commits.checked_out(clone).tree, "hollow", 7, 0, {"Python": "3.99.1"})
    tested.keep(record, cache / "tested")
    return cache.parent


def test_another_folder_makes_the_same_bytes_but_for_what_was_tested_and_a_killed_one_makes_nothing(
    made: Path, other_clone: Path, cache_of_another_machine: Path
) -> None:
    target = other_clone / "dist" / VERSION
    with start(other_clone) as process:
        begun = f"dist/.{VERSION}.partial/folder/*.whl"
        wait(lambda: process.poll() is not None or list(other_clone.glob(begun)), SECONDS)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=SECONDS)
    assert not target.exists()

    mask = os.umask(0o077)
    try:
        settings = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "7"}
        code, said = release(other_clone, XDG_CACHE_HOME=str(cache_of_another_machine), **settings)
    finally:
        os.umask(mask)
    assert code == 0, said
    first, second = contents(made), contents(target)
    assert "| Python | 3.99.1 |" in second["RELEASE.md"].decode()
    files = {name: content for name, content in first.items() if not is_signature(name)}
    differ = {name for name, content in files.items() if second.get(name) != content}
    assert second.keys() == files.keys()
    assert differ == {"RELEASE.md", "checksums.txt"}
    lines = [set(one["checksums.txt"].decode().splitlines()) for one in (first, second)]
    assert {line.partition("  ")[2] for line in lines[0] ^ lines[1]} == {"RELEASE.md"}
    assert list((other_clone / "dist").iterdir()) == [target]


def is_signature(name: str) -> bool:
    return name.endswith((".sigstore.json", ".sig"))


def test_all_is_there_and_the_list_of_checksums_names_it(made: Path) -> None:
    found = {name for name in contents(made) if not is_signature(name)}
    images = [f"ccm-from-scratch-{VERSION}-image-linux-{name}" for name in ("amd64", "arm64")]
    assert found == {
        "RELEASE.md",
        "checksums.txt",
        f"ccm-from-scratch-{VERSION}.tgz",
        f"ccm_from_scratch-{VERSION}-py3-none-any.whl",
        f"ccm_from_scratch-{VERSION}.tar.gz",
        f"hetzner_emulator-{VERSION}-py3-none-any.whl",
        f"hetzner_emulator-{VERSION}.tar.gz",
        *(f"{image}{suffix}" for image in images for suffix in (".tar", ".cdx.json")),
    }
    lines = (made / "checksums.txt").read_text().splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert listed.keys() == found - {"checksums.txt"}
    for name, digest in listed.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest


def test_every_file_is_signed_with_the_key(made: Path, key) -> None:
    for name, content in contents(made).items():
        if not is_signature(name):
            bundle = json.loads((made / f"{name}.sigstore.json").read_text())
            signature = base64.b64decode(bundle["messageSignature"]["signature"])
            key.public_key().verify(signature, content, ec.ECDSA(hashes.SHA256()))


def test_helm_installs_from_the_package_what_it_installs_from_the_folder(
    made: Path, helm: Path, tmp_path: Path
) -> None:
    def template(chart: Path) -> str:
        command = [helm, "template", "ours", chart, "--set=image.repository=registry.example.com/ccm"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = run(command, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    packed = template(made / f"ccm-from-scratch-{VERSION}.tgz")
    assert packed == template(TREE / "charts" / "ccm-from-scratch")
    assert f"registry.example.com/ccm:{VERSION}" in packed


@pytest.mark.parametrize("platform", ["amd64", "arm64"])
def test_an_archive_has_the_image_whose_digest_the_notes_name(made: Path, platform: str) -> None:
    stem = f"ccm-from-scratch-{VERSION}-image-linux-{platform}"
    with tarfile.open(made / f"{stem}.tar") as archive:

        def blob(digest: str) -> bytes:
            content = archive.extractfile(f"blobs/{digest.replace(':', '/')}").read()
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
            return content

        [entry] = json.load(archive.extractfile("index.json"))["manifests"]
        manifest = json.loads(blob(entry["digest"]))
        config = json.loads(blob(manifest["config"]["digest"]))
    assert f"| {platform} | `{entry['digest']}` |" in (made / "RELEASE.md").read_text()
    name = entry["annotations"]["io.containerd.image.name"]
    assert name == f"localhost/ccm-from-scratch:{VERSION}"
    assert config["architecture"] == platform
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == VERSION
    assert config["created"] == "2026-11-22T12:00:00Z"
    document = json.loads((made / f"{stem}.cdx.json").read_text())
    assert document["metadata"]["component"]["version"] == VERSION
    assert any(one["purl"].startswith("pkg:deb/debian/libc6@") for one in document["components"])


def test_what_is_pushed_of_a_release_is_what_its_notes_name_whatever_the_tree_has_meanwhile(
    made: Path, other_clone: Path, tmp_path: Path
) -> None:
    (other_clone / "ccm" / "new.json").write_text("{}")
    try:
        given = ("--release", made, "--output", tmp_path / "a.tar")
        with start(other_clone, *given, command="image") as process:
            said, _ = process.communicate(timeout=SECONDS)
    finally:
        (other_clone / "ccm" / "new.json").unlink()
    assert process.returncode == 0, said
    assert f"| index | `{index_in(tmp_path / 'a.tar')}` |" in (made / "RELEASE.md").read_text()


def test_the_notes_are_the_changelogs_and_say_what_was_tested(made: Path, clone: Path) -> None:
    text = (made / "RELEASE.md").read_text()
    assert text.startswith(f"# ccm-from-scratch {VERSION}\n")
    assert f"Made from commit {commits.checked_out(clone).id}.\n" in text
    assert "### Added\n" in text
    assert re.search(r"^There is no record|^\| Kubernetes \|", text, re.MULTILINE)
