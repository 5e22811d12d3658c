import re
from pathlib import Path
from typing import Any

import pytest

from ccm.cloud import ShowsEnvironment
from ccm.hetzner import open_cloud
from ccm.hetzner.settings import VARIABLES, environment
from ccm.hetzner.settings.variables import Variables

TOKEN = "t" * 64
LOAD_BALANCERS = Path(environment.__file__).parents[1] / "load_balancers"


def test_every_variable_of_the_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    class Recorder(Variables):
        def __getitem__(self, name: str) -> Any:
            asked.add(name)
            return super().__getitem__(name)

    monkeypatch.setattr(environment, "Variables", Recorder)
    environment.read({"HCLOUD_TOKEN": TOKEN, "HCLOUD_NETWORK": "n"})
    assert asked == {one.name for one in VARIABLES}


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda one: one.name)
def test_every_default_is_one_that_can_be_read(variable) -> None:
    if variable.default:
        variable.kind.parse(variable.default)


def test_messages_name_variables_that_exist() -> None:
    text = "".join(path.read_text() for path in LOAD_BALANCERS.rglob("*.py"))
    named = set(re.findall(r"\b(?:CCM|HCLOUD|ROBOT)_[A-Z0-9_]*[A-Z0-9]\b", text))
    assert len(named) > 10
    assert named <= {one.name for one in VARIABLES}


def test_what_is_shown_has_defaults_and_no_secrets(tmp_path) -> None:
    variables = {"HCLOUD_TOKEN": TOKEN, "ROBOT_USER_FILE": str(tmp_path / "user"), "HCLOUD_NETWORK": " net "}
    (tmp_path / "user").write_text("robert")
    cloud = open_cloud(variables | {"HCLOUD_LOAD_BALANCERS_TYPE": ""}, provider="hcloud")
    assert isinstance(cloud, ShowsEnvironment)
    shown = cloud.shown_environment()
    assert list(shown) == [one.name for one in VARIABLES]
    assert (shown["HCLOUD_TOKEN"], shown["ROBOT_USER"], shown["ROBOT_PASSWORD"]) == (
        "[secret]",
        "[secret]",
        "",
    )
    assert (shown["HCLOUD_NETWORK"], shown["HCLOUD_METRICS_ADDRESS"]) == ("net", ":8233")
    assert not {TOKEN, "robert"} & set(shown.values())
