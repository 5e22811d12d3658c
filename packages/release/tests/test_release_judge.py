from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from test_release_commits import git

from release.errors import ReleaseError
from release.make import Wish, judge
from release.signing import Signer

NEWS = "# Changelog\n\n## {}\n\n- all of it\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / "ccm").mkdir(parents=True)
    (root / "ccm" / "version.py").write_text('VERSION = "1.2.3"\n')
    git(root, "init", "--quiet")
    commit(root, "[1.2.3] - 2026-11-22")
    return root


def commit(root: Path, section: str) -> None:
    (root / "CHANGELOG.md").write_text(NEWS.format(section))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=all of it")


def request(
    root: Path, tag: str | None = None, signer: Signer | None = None, *, uncommitted: bool = False
) -> Wish:
    return Wish(root, None, root / "tested", lambda: root / "helm", signer, tag, uncommitted=uncommitted)


@pytest.fixture
def signer() -> Signer:
    return Signer(ec.generate_private_key(ec.SECP256R1()))


@pytest.mark.parametrize("tag", [None, "v1.2.3"])
def test_the_tag_of_the_version_is_taken(clone: Path, tag: str | None) -> None:
    judged = judge(request(clone, tag))
    assert judged.title == "ccm-from-scratch 1.2.3"
    assert judged.origin == f"commit {judged.commit.id}"


@pytest.mark.parametrize("tag", ["v9", "1.2.3", "v1.2.30", "v1.2.3-rc.1", "V1.2.3", ""])
def test_another_tag_is_refused(clone: Path, tag: str) -> None:
    with pytest.raises(ReleaseError, match=r"version 1\.2\.3 in ccm/version\.py\. Use the tag v1\.2\.3,"):
        judge(request(clone, tag))


def test_what_is_not_released_gets_no_tag_and_no_signature(clone: Path, signer: Signer) -> None:
    commit(clone, "[Unreleased]")
    assert judge(request(clone)).title == "ccm-from-scratch 1.2.3, not released"
    for final in (request(clone, "v1.2.3"), request(clone, signer=signer)):
        with pytest.raises(ReleaseError, match=r"version 1\.2\.3 are still in the section for unreleased"):
            judge(final)


def test_a_release_is_of_a_commit(clone: Path, signer: Signer) -> None:
    (clone / "new").write_text("x")
    trial = request(clone, uncommitted=True)
    for final in (request(clone), replace(trial, tag="v1.2.3"), replace(trial, signer=signer)):
        with pytest.raises(ReleaseError, match="uncommitted changes: new"):
            judge(final)
    assert judge(trial).origin.endswith(" and uncommitted changes")
