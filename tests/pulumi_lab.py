"""A Pulumi project on disk, and the Pulumi CLI with the sandbox's plugins in front of it."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_plugins.hcloud.provider import delete_begun
from sandbox.pulumi_cli import cli
from sandbox.pulumi_cli.states import States
from sandbox.site import cache_directory
from tests import child_processes
from tests.prepared import missing
from tests.served_cloud import TOKEN
from tests.warm_plugins import warm

ROOT = Path(__file__).parents[1]
RUNTIME = f"runtime:\n  name: python\n  options:\n    virtualenv: {sys.prefix}\n"
RUNS = ("up", "preview", "refresh", "destroy", "import")  # what Pulumi loads plugins for

_new_stacks: dict[tuple[str, str], dict[Path, bytes]] = {}


def pulumi() -> Path:
    """The CLI; skips the test where it has not been built."""
    found = cli.find(cache_directory(os.environ), os.environ)
    return found.path if found else missing("the Pulumi CLI")


def plugins(home: Path) -> dict[str, str]:
    """Variables for the sandbox's plugins in a new Pulumi home, also where official ones are installed."""
    cli.place(home, ROOT, cli.plugins({"HOME": "/nowhere"}))
    return {"PULUMI_HOME": str(home), "PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_PYTHON_CMD": sys.executable}


@dataclass(frozen=True)
class Result:
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
    name: str = "lab"
    stack: str = "dev"

    def __post_init__(self) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PULUMI_BACKEND_URL": f"file://{self.root}/state",
            "PULUMI_CONFIG_PASSPHRASE": "x",
            **plugins(self.root / "home"),
            "HCLOUD_TOKEN": TOKEN,
            # Of two programs of one length written in the same second, the first bytecode would run.
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }
        self.project.mkdir()
        (self.root / "state").mkdir()
        self.write("Pulumi.yaml", f"name: {self.name}\n{RUNTIME}")
        self._make_stack()

    def _make_stack(self) -> None:
        """Create the stack. That derives keys, so later projects of this process get copies of its files."""
        files = _new_stacks.setdefault((self.name, self.stack), {})
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        if files:
            self.ask(["stack", "select", self.stack])
            return
        self.ask(["stack", "init", self.stack])
        made = [self.project / f"Pulumi.{self.stack}.yaml", *self.root.glob("state/.pulumi/**/*")]
        files |= {path.relative_to(self.root): path.read_bytes() for path in made if path.is_file()}

    @property
    def project(self) -> Path:
        return self.root / "project"

    def write(self, name: str, text: str) -> None:
        """Write a file of the project; "\\udcff" stands for the byte 0xff."""
        (self.project / name).write_text(textwrap.dedent(text), encoding="utf-8", errors="surrogateescape")

    def program(self, body: str) -> None:
        head = "import os, pulumi\nfrom pulumi import ResourceOptions as O\n"
        (self.project / "__main__.py").write_text(head + textwrap.dedent(body))

    def command(self, *arguments: str) -> list[str]:
        # a preview would run the program twice
        skipped = "--yes" in arguments and arguments[0] in ("up", "refresh", "destroy")
        return [str(pulumi()), *arguments, *["--skip-preview"] * skipped, "--non-interactive"]

    def run(self, *arguments: str, given: str = "", timeout: float = 300, **more: str) -> Result:
        """Run a command to its end; with a text for its standard input."""
        with self.options(arguments, more) as options:
            done = child_processes.run(self.command(*arguments), timeout=timeout, input=given, **options)
        return Result(done.returncode, done.stdout, done.stderr)

    def up(self, body: str | None = None, status: int = 0, **more: str) -> str:
        """Write the program and run `up`; the output."""
        if body is not None:
            self.program(body)
        done = self.run("up", "--yes", **more)
        assert done.status == status, done.out + done.err
        return done.out

    def heal(self) -> list[str]:
        """What './dev' does first after a killed run; the names of what it deleted."""
        states = States(self.root / "state", self.name)
        states.repair()
        if states.locks(self.stack):
            self.ask(["cancel", "--yes"])
        exported = self.ask(["stack", "export"])
        deleted = delete_begun(json.loads(exported)["deployment"], self.environment)
        self.ask(["stack", "import"], exported)
        return deleted

    def ask(self, arguments: Sequence[str], given: str = "", **more: str) -> str:
        """What a command prints."""
        done = self.run(*arguments, given=given, **more)
        assert done.status == 0, done.out + done.err
        return done.out

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        with self.options(arguments, more) as options:
            return subprocess.Popen(
                self.command(*arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                stdin=subprocess.DEVNULL,
                **options,
            )

    @contextmanager
    def options(self, arguments: Sequence[str], more: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """What a process of the CLI starts with, and its plugins."""
        environment = {**self.environment, **more}
        if arguments[0] not in RUNS:
            yield {"cwd": self.project, "env": environment}
            return
        with warm(environment, self.project) as (shared, inherited):
            yield {"cwd": self.project, "env": {**environment, **shared}, "pass_fds": [inherited]}

    @property
    def state_file(self) -> Path:
        return self.root / f"state/.pulumi/stacks/{self.name}/{self.stack}.json"

    def state(self) -> dict[str, Any]:
        path = self.state_file
        return (json.loads(path.read_text())["checkpoint"].get("latest") or {}) if path.exists() else {}

    def resources(self) -> dict[str, dict[str, Any]]:
        """Custom resources of the state by name, without providers, and without what their order decides."""
        return {
            item["urn"].split("::")[3]: {
                key: item[key] for key in ("id", "type", "inputs", "outputs") if key in item
            }
            for item in self.state().get("resources") or []
            if item["custom"] and not item["type"].startswith("pulumi:providers:")
        }

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.ask(["stack", "output", "--json", "--show-secrets"]))
