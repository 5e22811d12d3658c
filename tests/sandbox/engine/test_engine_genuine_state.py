"""A state that the genuine engine and its plugins wrote in the hands of the embedded engine, and the reverse.

`genuine_state.json` is `pulumi stack export` after the first `./dev up` with the genuine CLI 3.259.0, the
hcloud plugin (about 1.39.1) and the kubernetes plugin (about 4.32), recorded on 2026-11-21. Left out are
resources of kinds that are there already, source positions and managed fields; in place of each secret stands
another text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_cloud import EmulatedCloud
from engine_lab import Lab

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).with_name("genuine_state.json")
RESOURCES = json.loads(RECORDED.read_text())["deployment"]["resources"]
DELTA = "__pulumi_raw_state_delta"
PROJECT = "ccm-from-scratch"

# Registers what the recorded program registered, by nothing but what the state says of it.
REPLAY = """
import json, os, pulumi
from pathlib import Path

SIGNATURE = "4dabf18193072939515e22adb298388d"
made = {}

def opened(value):
    if isinstance(value, dict):
        if SIGNATURE in value:
            return pulumi.Output.secret(json.loads(value["plaintext"]))
        return {key: opened(part) for key, part in value.items() if key not in ("__defaults", "__internal")}
    return [opened(part) for part in value] if isinstance(value, list) else value

def options(item):
    provider = item.get("provider", "").rsplit("::", 1)[0]
    by_default = "::default" in provider
    timeouts = pulumi.CustomTimeouts(create="120s", update="120s") if item.get("customTimeouts") else None
    return pulumi.ResourceOptions(
        parent=made.get(item.get("parent")),
        depends_on=[made[urn] for urn in item.get("dependencies", ()) if urn in made],
        deleted_with=made.get(item.get("deletedWith")),
        replace_on_changes=item.get("replaceOnChanges"),
        additional_secret_outputs=item.get("additionalSecretOutputs"),
        custom_timeouts=timeouts,
        provider=None if by_default or not provider else made[provider],
        version="1.43.3" if "providers:hcloud" in provider else None,
    )

recorded = json.loads(Path(os.environ["RECORDED"]).read_text())["deployment"]["resources"]
for item in recorded:
    kind, name, inputs = item["type"], item["urn"].split("::")[-1], opened(item.get("inputs") or {})
    if kind == "pulumi:pulumi:Stack" or name.startswith("default"):
        continue
    if item["custom"] and not kind.startswith(os.environ.get("ONLY", "")):
        continue
    if not item["custom"]:
        made[item["urn"]] = pulumi.ComponentResource(kind, name, None, options(item))
    elif kind.startswith("pulumi:providers:"):
        made[item["urn"]] = pulumi.ProviderResource(kind.split(":")[-1], name, inputs, options(item))
    else:
        made[item["urn"]] = pulumi.CustomResource(kind, name, inputs, options(item))
"""
CONFIG = next(item for item in RESOURCES if item["urn"].endswith("pulumi-python::default"))["inputs"]
CLOUD = [item for item in RESOURCES if item["type"].startswith("hcloud:")]


@pytest.fixture
def replay(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    lab = Lab(tmp_path, {"HCLOUD_ENDPOINT": cloud.endpoint, "RECORDED": str(RECORDED)})
    lab.write("Pulumi.yaml", f"name: {PROJECT}\nruntime: python\n")
    lab.write("Pulumi.local.yaml", json.dumps({"config": CONFIG}))
    (lab.project / "__main__.py").write_text(REPLAY)
    assert lab.run("stack", "init", "local").status == 0
    return lab


def state(lab: Lab) -> dict[str, dict[str, Any]]:
    exported = json.loads(lab.run("stack", "export", "--show-secrets").out)
    return {item["urn"]: item for item in exported["deployment"]["resources"]}


def test_a_genuine_state_is_taken_without_a_change(replay: Lab) -> None:
    assert replay.run("stack", "import", "--file", str(RECORDED)).status == 0
    for command in (["preview"], ["up", "--yes"]):
        done = replay.run(*command)
        assert done.status == 0, done.out + done.err
        assert "Resources:\n    " in done.out
        assert " unchanged" in done.out.split("Resources:")[1].splitlines()[1], done.out


def test_what_is_written_back_is_the_genuine_state_without_its_deltas(replay: Lab) -> None:
    assert replay.run("stack", "import", "--file", str(RECORDED)).status == 0
    assert sum(DELTA in item.get("outputs", ()) for item in RESOURCES) == len(CLOUD)
    done = replay.run("up", "--yes")
    assert done.status == 0, done.out + done.err
    assert DELTA not in json.dumps(replay.run("stack", "export").out)
    written = state(replay)
    for item in RESOURCES:
        if item["type"] == "pulumi:pulumi:Stack":
            continue
        after = written.pop(item["urn"])
        wanted = {key: value for key, value in (item.get("outputs") or {}).items() if key != DELTA}
        if item["custom"]:
            assert after.get("outputs", {}) == wanted
        for key in ("id", "type", "parent", "provider", "inputs", "deletedWith"):
            assert after.get(key) == item.get(key), (item["urn"], key)
    assert len(written) == 1, "the stack itself is left"


def shape(value: Any) -> Any:
    """A tree with types in place of what is in it; numbers and texts are what they are by the SDK's types."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return type(value).__name__


def test_what_the_embedded_engine_makes_is_noted_as_the_plugin_notes_it(replay: Lab) -> None:
    done = replay.run("up", "--yes", ONLY="hcloud:")
    assert done.status == 0, done.out + done.err
    written = state(replay)
    for item in CLOUD:
        after = written[item["urn"]]
        wanted = {key: value for key, value in item["outputs"].items() if key != DELTA}
        assert shape(after["outputs"]) == shape(wanted), item["urn"]
        assert after["inputs"] == item["inputs"]
