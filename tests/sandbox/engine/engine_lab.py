"""A Pulumi project on disk and the embedded engine's command line in front of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKEN = "x" * 64

DYNAMIC = """
import json, os, pulumi, time
from pathlib import Path
from pulumi.dynamic import (
    CheckFailure, CheckResult, CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult,
)

JOURNAL = Path(os.environ["JOURNAL"])

def note(*what):
    with JOURNAL.open("a") as file:
        file.write(" ".join(map(str, what)) + "\\n")

# Wait for one more that is being made, and see whether there is a third.
def meet():
    deadline = time.monotonic() + 60
    while JOURNAL.read_text().count("create") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)

class ThingProvider(ResourceProvider):
    def check(self, olds, news):
        wrong = [CheckFailure("size", "must not be negative")] if news.get("size", 0) < 0 else []
        return CheckResult(dict(news), wrong)
    def diff(self, id, olds, news):
        replaces = [key for key in ("host",) if olds.get(key) != news.get(key)]
        keys = ("size", "host", "word", "list")
        changes = any(olds.get(key) != news.get(key) for key in keys)
        return DiffResult(changes=changes, replaces=replaces, delete_before_replace=bool(news.get("first")))
    def create(self, props):
        note("create", props["label"])
        if props.get("word") == "fail":
            raise RuntimeError("the word is fail")
        if props.get("word") == "block":
            note("blocked", os.getpid())
            time.sleep(600)
        if props.get("word") == "together":
            meet()
            note("made")
        made = props.get("size", 0) * 2
        return CreateResult(f"{props['label']}@{props.get('host')}", dict(props, made=made))
    def read(self, id, props):
        gone = json.loads(os.environ.get("GONE", "[]"))
        if props["label"] in gone:
            return ReadResult("", {})
        drift = json.loads(os.environ.get("DRIFT", "{}"))
        return ReadResult(id, dict(props, **drift))
    def update(self, id, olds, news):
        note("update", news["label"])
        return UpdateResult(dict(news, made=news.get("size", 0) * 2))
    def delete(self, id, props):
        note("delete", props["label"])

class Thing(Resource):
    made: pulumi.Output[int]
    host: pulumi.Output[str]
    word: pulumi.Output[str]
    def __init__(self, name, opts=None, host="h", size=1, **more):
        props = {"label": name, "host": host, "size": size, "made": None, **more}
        super().__init__(ThingProvider(), name, props, opts)
"""


def check_integrity(deployment: dict[str, Any]) -> None:
    """What the genuine engine demands of a state before it works with it, however the last run ended."""
    seen: set[str] = set()
    present: set[str] = set()
    providers: set[str] = set()
    for item in deployment.get("resources") or []:
        urn, pending = item["urn"], item.get("pendingReplacement")
        assert item["custom"] or not item.get("id"), f"{urn} is a component with an id"
        assert pending or item.get("provider") in {None, "", *providers}, f"the provider of {urn} is missing"
        needed = {item.get("parent"), item.get("deletedWith"), *item.get("dependencies", ())}
        for urns in item.get("propertyDependencies", {}).values():
            needed |= set(urns)
        assert needed - {None, ""} <= seen, f"{urn} comes before what it needs"
        if item["type"].startswith("pulumi:providers:"):
            providers.add(f"{urn}::{item['id']}")
        assert item.get("delete") or urn not in present, f"{urn} is there twice"
        seen.add(urn)
        if not item.get("delete"):
            present.add(urn)


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback (most recent call last)" not in self.err


@dataclass
class Lab:
    """One project with its own backend."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.root}/state",
            "PULUMI_CONFIG_PASSPHRASE": "x",
            "CCMFS_ENGINE": "embedded",
            "JOURNAL": str(self.root / "journal"),
            "HCLOUD_TOKEN": TOKEN,
            # Of two programs of one length written in the same second, the first bytecode would run.
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }
        self.project.mkdir()
        self.write("Pulumi.yaml", "name: lab\nruntime: python\n")
        self.write("things.py", DYNAMIC)
        self.run("stack", "init", "dev")

    @property
    def project(self) -> Path:
        return self.root / "project"

    def write(self, name: str, text: str) -> None:
        """Write a file of the project; "\\udcff" stands for the byte 0xff."""
        (self.project / name).write_text(textwrap.dedent(text), encoding="utf-8", errors="surrogateescape")

    def program(self, body: str) -> None:
        head = "import os, pulumi\nfrom pulumi import ResourceOptions as O\nfrom things import Thing\n"
        (self.project / "__main__.py").write_text(head + textwrap.dedent(body))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sandbox.engine", *arguments]

    def run(self, *arguments: str, timeout: float = 300, **more: str) -> Result:
        """Run a command to its end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.project,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if arguments[0] in ("up", "refresh", "destroy", "stack"):
            check_integrity(self.state())
        return Result(done.returncode, done.stdout, done.stderr)

    def up(self, body: str | None = None, status: int = 0, **more: str) -> str:
        """Write the program and run `up`; the output."""
        if body is not None:
            self.program(body)
        done = self.run("up", "--yes", **more)
        assert done.status == status, done.out + done.err
        return done.out

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.project,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def journal(self) -> list[str]:
        """What the dynamic provider did since the last call."""
        path = self.root / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    @property
    def state_file(self) -> Path:
        return self.root / "state/.pulumi/stacks/lab/dev.json"

    def state(self) -> dict[str, Any]:
        path = self.state_file
        return (json.loads(path.read_text())["checkpoint"].get("latest") or {}) if path.exists() else {}

    def resources(self) -> dict[str, dict[str, Any]]:
        """Custom resources of the state by name, without providers."""
        return {
            item["urn"].split("::")[3]: item
            for item in self.state().get("resources") or []
            if item["custom"] and not item["type"].startswith("pulumi:providers:")
        }

    def outputs(self) -> dict[str, Any]:
        done = self.run("stack", "output", "--json", "--show-secrets")
        assert done.status == 0, done.err
        return json.loads(done.out)
