"""The image that Docker builds: everything in it is fixed, and nothing else of the clone gets near it."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import pytest

from infra.files import ROOT
from infra.oci.build import read_source

DOCKERFILE = (ROOT / "ccm/Dockerfile").read_text()
RULES = [
    line.strip()
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def is_sent(path: str) -> bool:
    """Whether Docker gets a file: the last rule that fits it, or a folder above it, counts."""
    pure = PurePosixPath(path)
    places = [str(pure), *map(str, pure.parents)][:-1]
    sent = True
    for rule in RULES:
        pattern = rule.removeprefix("!")
        if any(_fits(place, pattern) for place in places):
            sent = rule.startswith("!")
    return sent


def _fits(place: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(PurePosixPath(place).name, pattern[3:])
    same_depth = place.count("/") == pattern.count("/")
    return same_depth and fnmatchcase(place, pattern)


def test_the_base_is_named_by_its_digest():
    (base,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert [line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM")] == [
        "${PYTHON}"
    ] * 2


def test_nothing_is_installed_without_its_hash():
    commands = DOCKERFILE.replace("\\\n", " ").splitlines()
    installing = [line for line in commands if re.search(r"pip|apt|curl|wget|ADD ", line) and line[0] != "#"]
    assert len(installing) == 1
    assert "--require-hashes --only-binary=:all:" in installing[0]
    assert "--no-deps" in installing[0]


@pytest.mark.parametrize(
    "path",
    [
        ".dev-env.ssh",
        "kubeconfig.yaml",
        ".sandbox/passphrase",
        ".git/config",
        "Pulumi.hetzner.yaml",
        "hetzner.credentials",
        "infra/__main__.py",
        "infra/.venv/bin/python",
        "ccm/__pycache__/x.pyc",
        "ccm/hetzner/__pycache__/x.pyc",
    ],
)
def test_nothing_private_is_sent_to_docker(path):
    assert not is_sent(path)


def test_what_is_sent_makes_the_same_program_as_we_do(tmp_path):
    """With Python's own library alone."""
    context, target = tmp_path / "src", tmp_path / "opt"
    tree = [*ROOT.glob("*"), *ROOT.glob("ccm/**/*"), *ROOT.glob("infra/*"), *ROOT.glob("infra/oci/**/*")]
    for path in tree:
        name = str(path.relative_to(ROOT))
        if path.is_file() and is_sent(name):
            copy = context / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    dead = target / "site/kubernetes/client/models/v1_pod.py"
    dead.parent.mkdir(parents=True)
    dead.touch()
    command = [sys.executable, "-S", "-m", "infra.oci", str(target)]
    subprocess.run(command, cwd=context, check=True, timeout=60)
    app = target / "app"
    made = {str(path.relative_to(app)): path.read_bytes() for path in app.rglob("*") if path.is_file()}
    assert made == read_source().files
    assert "ccm/__main__.py" in made
    assert not dead.exists()
