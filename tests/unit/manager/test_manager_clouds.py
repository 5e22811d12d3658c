import tomllib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from ccm.errors import ConfigurationError
from ccm.manager import clouds
from ccm.testing.fake_cloud import FakeCloud

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def open_fake(environment, *, provider, registry):
    if "FAKE_NAME" not in environment:
        raise ConfigurationError(["FAKE_NAME: is missing", "FAKE_AGE: is missing"])
    return FakeCloud(name=f"{provider} {environment['FAKE_NAME']}")


def _open(name: str, **environment: str):
    return clouds.open_cloud(name, environment, CollectorRegistry())


def test_table_repeats_the_entry_points():
    assert PROJECT["entry-points"][clouds.GROUP] == clouds.BUILT_IN


def test_unknown_cloud():
    with pytest.raises(
        ConfigurationError, match='unknown cloud provider "moon"; allowed: ccm-from-scratch, hcloud'
    ):
        _open("moon")


def test_installed_cloud(monkeypatch):
    monkeypatch.setattr(clouds, "BUILT_IN", {"fake": "test_manager_clouds:open_fake"})
    assert _open("fake", FAKE_NAME="x").name == "fake x"
    with pytest.raises(ConfigurationError) as caught:
        _open("fake")
    assert len(caught.value.problems) == 2


def test_a_programs_own_cloud_takes_precedence():
    own = {"hcloud": open_fake}
    assert clouds.open_cloud("hcloud", {"FAKE_NAME": "x"}, CollectorRegistry(), own).name == "hcloud x"
    with pytest.raises(ConfigurationError, match=r"allowed: .*moon.*, sample"):
        clouds.open_cloud("mars", {}, CollectorRegistry(), {"moon": open_fake})


@pytest.mark.parametrize("place", ["no_such_module:open", "test_manager_clouds:no_such_function"])
def test_cloud_that_can_not_be_loaded(monkeypatch, place):
    monkeypatch.setattr(clouds, "BUILT_IN", {"fake": place})
    with pytest.raises(ConfigurationError, match='"fake" can\'t be loaded'):
        _open("fake")
