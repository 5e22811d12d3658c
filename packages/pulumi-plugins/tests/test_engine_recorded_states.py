"""States that others than the sandbox's plugins have written: taken over without a change, and written alike.

`recorded_states.json` has resources of stacks of this project. "old engine" is what this project had until
November 2026. "official plugins" are the hcloud plugin (about 1.39.1) with the CLI 3.259.0. Left out are
resources of kinds that are there already, what is not compared, and secrets.
"""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.pulumi_cloud import EmulatedCloud
from tests.pulumi_lab import ROOT, Lab

pytestmark = pytest.mark.slow

TEXT = Path(__file__).with_name("recorded_states.json").read_text()
# the CLI takes the plugin of the SDK's version and no other
NOW = version("pulumi-hcloud")
STATES = json.loads(TEXT.replace("1.43.3", NOW).replace("1_43_3", NOW.replace(".", "_")))
DELTA = "__pulumi_raw_state_delta"
ADDRESS = r"[0-9a-f:]+::[0-9a-f]*|\d+\.\d+\.\d+\.\d+|(?:[0-9a-f]{2}:)+[0-9a-f]{2}"
OFFICIAL = [name for name in STATES if name.startswith("official")]

# Registers what the recorded program registered, by nothing but what the state says of it.
REPLAY = """
import json, os, pulumi
from pathlib import Path

SIGNATURE = "4dabf18193072939515e22adb298388d"
made, ids = {}, {}

def opened(value):
    if isinstance(value, dict):
        if SIGNATURE in value:
            return pulumi.Output.secret(json.loads(value["plaintext"]))
        return {key: opened(part) for key, part in value.items() if key not in ("__defaults", "__internal")}
    if isinstance(value, list):
        return [opened(part) for part in value]
    return linked(value)

# An id of this recording is that of the resource that is made now.
def linked(value):
    for old, resource in ids.items() if os.environ.get("LINKED") else ():
        if str(value) == old:
            return resource.id.apply(int if isinstance(value, int) else str)
        if isinstance(value, str) and value.startswith(f"{old}-"):
            return pulumi.Output.concat(resource.id, value[len(old):])
    return value

def options(item):
    provider = item.get("provider", "").rsplit("::", 1)[0]
    by_default = "::default" in provider
    return pulumi.ResourceOptions(
        parent=made.get(item.get("parent")),
        depends_on=list(ids.values()) if os.environ.get("LINKED") else [],
        deleted_with=made.get(item.get("deletedWith")),
        ignore_changes=item.get("ignoreChanges"),
        replace_on_changes=item.get("replaceOnChanges"),
        additional_secret_outputs=item.get("additionalSecretOutputs"),
        provider=None if by_default or not provider else made[provider],
        version=os.environ["VERSION"] if "providers:hcloud" in provider else None,
    )

for item in json.loads(Path(os.environ["RECORDED"]).read_text()):
    kind, name, inputs = item["type"], item["urn"].split("::")[-1], opened(item.get("inputs") or {})
    if kind == "pulumi:pulumi:Stack" or name.startswith("default"):
        continue
    if not item["custom"]:
        made[item["urn"]] = pulumi.ComponentResource(kind, name, None, options(item))
    elif kind.startswith("pulumi:providers:"):
        made[item["urn"]] = pulumi.ProviderResource(kind.split(":")[-1], name, inputs, options(item))
    else:
        made[item["urn"]] = ids[item["id"]] = pulumi.CustomResource(kind, name, inputs, options(item))
"""


def replay(folder: Path, cloud: EmulatedCloud, state: str) -> Lab:
    """A program that registers what a state has, in a stack of that name without any resource."""
    (folder / "recorded.json").write_text(json.dumps(STATES[state]))
    _, _, stack, _, project, *_ = STATES[state][0]["urn"].split(":")
    environment = {
        "HCLOUD_ENDPOINT": cloud.endpoint,
        "PYTHONPATH": str(ROOT),
        "RECORDED": str(folder / "recorded.json"),
        "VERSION": NOW,
    }
    lab = Lab(folder, environment, project, stack)
    (lab.project / "__main__.py").write_text(REPLAY)
    return lab


@pytest.mark.parametrize("state", STATES)
def test_a_recorded_state_is_taken_over_without_a_change(
    tmp_path: Path, cloud: EmulatedCloud, state: str
) -> None:
    lab = replay(tmp_path, cloud, state)
    providers = [item for item in STATES[state] if item["type"].startswith("pulumi:providers:")]
    assert providers
    config = next((item["inputs"] for item in providers if item["type"].endswith(":pulumi-python")), {})
    of_hcloud = next(item["inputs"] for item in providers if item["type"].endswith(":hcloud"))
    polling = {f"hcloud:{key}": value for key, value in of_hcloud.items() if key.startswith("poll")}
    lab.write(f"Pulumi.{lab.stack}.yaml", json.dumps({"config": {**config, **polling}}))
    exported = json.loads(lab.ask(["stack", "export"]))
    exported["deployment"]["resources"] = STATES[state]
    lab.ask(["stack", "import"], json.dumps(exported))
    planned = lab.run("preview", "--diff")
    assert planned.status == 0, planned.out + planned.err
    changed = re.search(r"Resources:\n((?: +.*\n)+)", planned.out)
    assert changed, planned.out
    assert re.fullmatch(r" +\d+ unchanged\n", changed[1]), planned.out


@pytest.mark.parametrize("state", OFFICIAL)
def test_outputs_are_those_of_the_official_plugin(tmp_path: Path, cloud: EmulatedCloud, state: str) -> None:
    lab = replay(tmp_path, cloud, state)
    for command in ("up", "refresh"):
        done = lab.run(command, "--yes", LINKED="yes")
        assert done.status == 0, done.out + done.err
    now = {item["urn"]: item for item in lab.state()["resources"]}
    for item in STATES[state]:
        if item["type"].startswith("hcloud:"):
            assert shape(now[item["urn"]]["outputs"]) == shape(item["outputs"]), item["urn"]


def shape(value: Any) -> Any:
    """Outputs without what differs from one cloud to the next, what depends on the moment, and order."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items() if key not in (DELTA, "servers", "applyTos")}
    if isinstance(value, list):
        return sorted((shape(part) for part in value), key=repr)
    if isinstance(value, str):
        return re.sub(ADDRESS, "ADDRESS", re.sub(r"\d{7}", "ID", value))
    return "ID" if isinstance(value, int) and not isinstance(value, bool) and value > 999_999 else value
