"""Files and answers that are not what the engine needs: one clear error each, and nothing changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_lab import Lab, Result
from test_engine_terminal import at_a_terminal

from sandbox.engine.errors import ProviderError
from sandbox.engine.providers.kubernetes.kubeconfig import read_kubeconfig

pytestmark = pytest.mark.slow

STACK = {"urn": "urn:pulumi:dev::lab::pulumi:pulumi:Stack::lab-dev", "type": "pulumi:pulumi:Stack"}


def told(done: Result) -> str:
    assert done.status == 1
    assert done.err.count("error:") == 1
    assert "internal error" not in done.err
    return done.err


@pytest.mark.parametrize("arguments", [("get", ""), ("rm", ""), ("set", "", "1")])
def test_an_empty_path(lab: Lab, arguments: tuple[str, ...]) -> None:
    action, *rest = arguments
    assert "an empty text is no property path" in told(lab.run("config", action, "--path", *rest))


def test_a_value_that_only_looks_like_a_number(lab: Lab) -> None:
    for value in ("--5", "-", "9" * 5000):
        assert lab.run("config", "set", "--path", "a.b", "--", value).status == 0
        assert lab.run("config", "get", "--path", "a.b").out == value + "\n"


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (None, "the deployment is no mapping"),
        ([], "the deployment is no mapping"),
        ({"resources": {"a": 1}}, "'resources' is no list"),
        ({"resources": [{"type": "a"}]}, "a resource has no 'urn'"),
        ({"resources": [{**STACK, "urn": "x"}]}, "'x' is no urn of a resource"),
        ({"resources": [{"urn": STACK["urn"]}]}, "has no 'type'"),
        ({"pending_operations": [{"resource": STACK}]}, "a pending operation has no type"),
        ({"secrets_providers": {"state": [1]}}, "the state of 'secrets_providers' is no mapping"),
    ],
)
def test_a_deployment_that_pulumi_never_wrote(lab: Lab, deployment: Any, message: str) -> None:
    before = lab.state_file.read_text()
    file = lab.root / "export.json"
    file.write_text(json.dumps({"version": 3, "deployment": deployment}))
    assert message in told(lab.run("stack", "import", "--file", str(file)))
    assert lab.state_file.read_text() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 50_000, "can't be read: "),
        ("9" * 5000, "can't be read: "),
        ("[]", "this is no state of a stack"),
        ("null", "this is no state of a stack"),
        ('{"version": 3}', "the state has no 'checkpoint'"),
        ('{"version": 3, "checkpoint": {"latest": [1]}}', "the deployment is no mapping"),
    ],
)
def test_a_checkpoint_that_is_none(lab: Lab, text: str, message: str) -> None:
    lab.state_file.write_text(text)
    assert message in told(lab.run("preview"))


def test_files_that_are_nested_without_end(lab: Lab) -> None:
    endless = "[" * 50_000
    file = lab.root / "export.json"
    file.write_text(endless)
    assert "can't be read: " in told(lab.run("stack", "import", "--file", str(file)))
    folder = lab.state_file.parents[2] / "locks/organization" / lab.state_file.parent.name / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.json").write_text(endless)
    (folder / "b.json").write_text('{"pid": 1e999, "username": "", "hostname": "", "timestamp": ""}')
    lab.program("")
    lab.up()
    with pytest.raises(ProviderError, match="the kubeconfig is not YAML"):
        read_kubeconfig({"kubeconfig": endless[:5000] + "\n"}, {})


@pytest.mark.parametrize(
    ("salt", "sealed", "message"),
    [
        ("nonsense", "v1:AAAA:AAAA", "the salt of the passphrase"),
        ("5", "v1:AAAA:AAAA", "the salt of the passphrase"),
        (None, "nonsense", "an encrypted value is damaged"),
        (None, "v1:A:A", "an encrypted value is damaged"),
        (None, "5", "an encrypted value is damaged"),
    ],
)
def test_what_is_encrypted_is_damaged(lab: Lab, salt: str | None, sealed: str, message: str) -> None:
    lab.program("")
    lab.run("config", "set", "--secret", "word", "s3cret")
    file = lab.project / "Pulumi.dev.yaml"
    kept = next(line.split(": ", 1)[1] for line in file.read_text().splitlines() if "encryptionsalt" in line)
    file.write_text(f"encryptionsalt: {salt or kept}\nconfig:\n  lab:word: {{secure: {sealed}}}\n")
    assert message in told(lab.run("config", "get", "word"))
    assert message in told(lab.run("up", "--yes"))


@pytest.mark.parametrize("arguments", [("up",), ("stack", "rm"), ("config", "set", "a")])
def test_an_input_that_ends_answers_no_question(lab: Lab, arguments: tuple[str, ...]) -> None:
    lab.program("")
    with at_a_terminal(lab, *arguments) as person:
        person.wait_for_one_of("Type yes: |Type its name: |value: ")
        person.type(b"\x04")
        assert person.wait() == 1
        assert "error: no answer: the input has ended" in person.seen
        assert "Traceback" not in person.seen
