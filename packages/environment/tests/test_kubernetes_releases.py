import argparse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.versions import IMAGE_VERSION
from sandbox import stack_settings
from sandbox.built_kubernetes import begin_hollow, hollow_version
from sandbox.commands.test import take_version
from sandbox.commands.up import add_arguments, version
from sandbox.environment import HOLLOW, MACHINES
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases
from sandbox.site import open_site

TREE = Path(__file__).parents[3]
OLDEST = releases.ascending()[0]
MINOR = OLDEST.rpartition(".")[0]


@pytest.fixture
def site(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text((TREE / "Pulumi.yaml").read_text())
    return open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, list, lambda _port: True)


def say(site, **settings):
    lines = [f"  ccm-from-scratch:{name}: {value}" for name, value in settings.items()]
    for stack in ("local", "hollow"):
        (site.root / f"Pulumi.{stack}.yaml").write_text("\n".join(["config:", *lines, ""]))


def test_the_default_version(site):
    assert releases.k3s_name(releases.default()) == IMAGE_VERSION
    for stack in ("local", "hollow"):
        assert stack_settings.Settings(site, stack).kubernetes == releases.default()


@pytest.mark.parametrize("said", [OLDEST, MINOR, f"v{MINOR}", f"v{OLDEST}"])
def test_names_of_versions(said):
    assert releases.named(said, "--kubernetes") == OLDEST
    assert take_version(["--kubernetes", said]) == take_version([f"--kubernetes={said}"]) == OLDEST


@given(st.text(alphabet="v1.35678+ks", max_size=12))
def test_unknown_versions(said):
    bare = said.removeprefix("v")
    if bare in {*releases.versions(), *(version.rpartition(".")[0] for version in releases.versions())}:
        assert releases.named(said, "--kubernetes").startswith(bare)
        return
    with pytest.raises(SandboxError) as refused:
        releases.named(said, "--kubernetes")
    assert str(refused.value).startswith(f"--kubernetes {said}: ")
    assert str(refused.value).endswith(", ".join(releases.ascending()))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"k3sVersion": f"v{OLDEST}+k3s1"}, OLDEST),
        ({"k3sVersion": "''", "k3sChannel": f"v{MINOR}"}, OLDEST),
        ({"k3sVersion": "''", "k3sChannel": "stable"}, releases.default()),
        ({"k3sVersion": "''"}, releases.default()),
    ],
)
def test_a_stacks_settings_pick_the_version(site, settings, found):
    say(site, **settings)
    assert stack_settings.Settings(site, "local").kubernetes == found
    assert version(site, MACHINES, None) == found


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"k3sVersion": "v1.30.0+k3s1"}, r"k3sVersion v1\.30\.0\+k3s1: .* v1\.37\.2\+k3s1$"),
        ({"k3sVersion": f"v{OLDEST}"}, f"k3sVersion v{OLDEST}: "),
        ({"k3sVersion": "[1]"}, r"k3sVersion \[1\]: "),
        ({"k3sVersion": "''", "k3sChannel": "v1.30"}, r"k3sChannel v1\.30: .* stable, .* v1\.36, v1\.37"),
    ],
)
def test_an_unknown_version_in_the_settings(site, settings, text):
    say(site, **settings)
    with pytest.raises(SandboxError, match=f"^ccm-from-scratch:{text}"):
        version(site, MACHINES, None)
    assert version(site, MACHINES, OLDEST) == OLDEST, "what is typed wins"


def test_a_hollow_cluster_keeps_its_version(site):
    assert hollow_version(site) == ""
    say(site, k3sVersion=f"v{OLDEST}+k3s1")
    assert begin_hollow(site) == OLDEST == version(site, HOLLOW, None)
    say(site)
    assert begin_hollow(site) == OLDEST
    with pytest.raises(SandboxError, match=f"{releases.default()}: .* run Kubernetes {OLDEST}"):
        version(site, HOLLOW, None)
    assert version(site, MACHINES, None) == releases.default()
    (site.state / "control-plane/version").unlink()
    assert begin_hollow(site, OLDEST) == begin_hollow(site) == OLDEST


def test_a_genuine_k3s_has_no_version_to_choose():
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    with pytest.raises(argparse.ArgumentError, match="not allowed with"):
        parser.parse_args(["--k3s", "file", "--kubernetes", OLDEST])


@pytest.mark.parametrize("given", [["--kubernetes"], ["--kubernetes="], ["--kubernetes", "unit"]])
def test_a_run_with_no_version_is_refused(given):
    with pytest.raises(SandboxError, match="--kubernetes"):
        take_version(given)
    others = ["unit", "-k", "kubernetes"]
    assert take_version([*others]) == take_version([]) == ""
