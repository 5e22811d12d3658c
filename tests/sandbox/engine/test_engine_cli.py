"""The command line: what it knows, what it refuses, and when it hands over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_lab import Lab

from sandbox.engine.__main__ import find_genuine
from sandbox.engine.cli import run
from sandbox.engine.commands.configuration import looks_secret

pytestmark = pytest.mark.slow


def test_no_command_shows_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    told = capsys.readouterr().out
    assert all(f"\n    {name} " in told for name in ("up", "preview", "destroy", "stack", "config"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["watch"], "the embedded engine has no command 'watch' in 'pulumi'"),
        (["up", "--yes", "--bogus"], "has no argument '--bogus'"),
        (["up", "--yes", "--target", "urn"], "has no argument '--target'"),
        (["stack", "graph"], "has no command 'graph' in 'pulumi stack'"),
        (["up", "--yes", "--refresh=maybe"], "argument -r/--refresh: invalid choice: 'maybe'"),
        (["up", "-ry"], "argument -r/--refresh: invalid choice: 'y'"),
        (["up", "--yes", "--color=blue"], "argument --color: invalid choice: 'blue'"),
        (["stack", "init", "a", "--secrets-provider", "b"], "--secrets-provider: invalid choice: 'b'"),
        (["up"], "--yes or --skip-preview must be passed"),
        (["up", "--yes", "--parallel", "0"], "--parallel: 0 is not allowed"),
        (
            ["up", "--yes", "-s", "nobody"],
            "no stack named 'nobody' found; 'pulumi stack init nobody' makes one",
        ),
        (["up", "--yes", "-s", "a/b"], "'a/b' is not a stack name"),
        (["preview", "-C", "/"], "no Pulumi.yaml found here"),
        (["preview", "-C", "typo"], "typo: there is no such folder"),
        (["preview", "-C", "__main__.py"], "__main__.py: there is no such folder"),
        # What every command has may stand anywhere, as with the Pulumi CLI.
        (["-C", "/", "preview"], "no Pulumi.yaml found here"),
        (["-s", "nobody", "stack", "output"], "no stack named 'nobody' found"),
        (["stack", "-s", "nobody", "output"], "no stack named 'nobody' found"),
        (["stack", "output", "nothing"], "the stack 'dev' has no output 'nothing' (it has: none)"),
        (["config", "get", "nothing"], "configuration value 'lab:nothing' is not set in this stack"),
        (["config", "set", "a[", "1", "--path"], "'a[' is not a property path"),
        (["config", "set", "-s", "nobody", "a", "1"], "no stack named 'nobody' found"),
        (["config", "-s", "nobody"], "no stack named 'nobody' found"),
        (["config", "set", "a:b:c", "1"], "'a:b:c' is not a configuration key"),
        (["up", "--yes", "--diff"], "has no argument '--diff'"),
        (["stack", "init", "dev"], "stack 'dev' already exists"),
        (["stack", "rm", "dev"], "--yes must be passed in"),
        (
            ["stack", "rm", "--yes", "-s", "dev", "other"],
            "only one of --stack ('dev') and the argument ('other')",
        ),
        (["stack", "init", "-s", "dev", "other"], "only one of --stack ('dev') and the argument ('other')"),
        (["stack", "import", "--file", "/nowhere"], "/nowhere: can't be read"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(lab: Lab, arguments: list[str], told: str) -> None:
    lab.program("")
    done = lab.run(*arguments)
    assert done.status == 1
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert told in errors[0]


@pytest.mark.parametrize(
    ("project", "told"),
    [
        ("name: lab\nruntime: nodejs\n", "runtime: 'nodejs' can't be run"),
        ("name: lab\nruntime: python\nplugins: {}\n", "the key 'plugins' of Pulumi.yaml"),
        ("name: lab\nruntime: python\nmain: nowhere/\n", "does not exist"),
        (
            "name: lab\nruntime: python\noptions: {refresh: never}\n",
            "options.refresh: 'never' is not allowed",
        ),
        ("name: [\n", "is not YAML"),
        ("name: lab\ndescription: !!timestamp 2026-13-45\n", "is not YAML: month must be in 1..12"),
        ("name: \udcff\n", "is not YAML: 'utf-8' codec can't decode"),
        pytest.param("[" * 5000, "is not YAML", id="endless nesting"),
        (
            "name: lab\nruntime: python\nconfig:\n  n: {type: integer}\n",
            "configuration value 'lab:n' is required",
        ),
        (
            "name: lab\nruntime: python\nconfig:\n  n: {type: integer, default: x}\n",
            "must be of type integer, not 'x'",
        ),
        ("name: lab\nruntime: python\nconfig:\n  on: 1\n", "the key True must be a text"),
        ("name: lab\nruntime: python\nconfig:\n  n: {type: list}\n", "has the unknown type 'list'"),
    ],
)
def test_a_wrong_project_is_told_before_anything_happens(lab: Lab, project: str, told: str) -> None:
    lab.program("")
    lab.write("Pulumi.yaml", project)
    done = lab.run("up", "--yes")
    assert done.status == 1
    assert told in done.err


def test_configuration_is_set_read_listed_and_removed(lab: Lab) -> None:
    lab.write("Pulumi.dev.yaml", "# kept\nconfig:\n  lab:old: x\n")
    lab.run("config", "set", "name", "Anna")
    lab.run("config", "set", "--path", "deep.list[0].port", "80")
    lab.run("config", "set", "--secret", "word", "s3cret")
    assert lab.run("config", "get", "name").out == "Anna\n"
    assert lab.run("config", "get", "word").out == "s3cret\n"
    assert lab.run("config", "get", "--path", "deep.list[0].port").out == "80\n"
    listed = json.loads(lab.run("config", "--json").out)
    assert listed["lab:word"] == {"secret": True}
    deep = {"value": '{"list":[{"port":80}]}', "objectValue": {"list": [{"port": 80}]}, "secret": False}
    assert listed["lab:deep"] == deep
    assert json.loads(lab.run("config", "get", "--json", "deep").out) == deep
    assert (lab.project / "Pulumi.dev.yaml").read_text().startswith("# kept\n")
    lab.run("config", "set", "--path", "name[0]", "Berta")  # as with the CLI, a plain value gives way
    assert lab.run("config", "get", "name").out == '["Berta"]\n'
    assert "expected an array" in lab.run("config", "set", "--path", "deep.list[0].port[0]", "1").err
    assert lab.run("config", "rm", "old").status == 0
    assert lab.run("config", "get", "old").status == 1
    assert lab.run("config", "rm", "old").status == 0


def test_what_the_project_gives_a_stack_is_part_of_its_configuration(lab: Lab) -> None:
    lab.write(
        "Pulumi.yaml",
        """\
        name: lab
        runtime: python
        config:
          count: {type: integer, default: 3}
          lab:zones: {type: array, items: {type: string}, default: [a, b]}
          other:region: {value: north}
        """,
    )
    lab.run("config", "set", "count", "4")
    for key, value in (
        ("count", "4"),
        ("zones", '["a","b"]'),
        ("lab:zones", '["a","b"]'),
        ("other:region", "north"),
    ):
        assert lab.run("config", "get", key).out == value + "\n"
    assert lab.run("config", "get", "--path", "zones[1]").out == "b\n"
    listed = json.loads(lab.run("config", "--json").out)
    assert list(listed) == ["lab:count", "lab:zones", "other:region"]
    assert listed["lab:zones"]["objectValue"] == ["a", "b"]
    assert (lab.project / "Pulumi.dev.yaml").read_text() == "config:\n  lab:count: '4'\n"


def test_a_secret_is_not_stored_in_plain_text_unless_that_is_said(lab: Lab) -> None:
    token = "q7Yb" * 16
    for key, options in (("hcloud:token", ()), ("deep.s3.secretKey", ("--path",))):
        refused = lab.run("config", "set", *options, key, token)
        assert f"config value for '{key}' looks like a secret; rerun with --secret" in refused.err
        assert token not in refused.err
        assert lab.run("config", "get", *options, key).status == 1
        assert lab.run("config", "set", "--plaintext", *options, key, token).status == 0
        assert lab.run("config", "get", *options, key).out == token + "\n"


def test_an_encrypted_value_is_not_replaced_by_plain_text_unless_that_is_said(lab: Lab) -> None:
    lab.run("config", "set", "--secret", "word", "s3cret")
    lab.run("config", "set", "--secret", "--path", "deep.word", "s3cret")
    for key, options in (("word", ()), ("word.part", ("--path",)), ("deep.word", ("--path",)), ("deep", ())):
        refused = lab.run("config", "set", *options, key, "short")
        assert f"config value for '{key}' is encrypted; rerun with --secret" in refused.err
    assert lab.run("config", "get", "word").out == "s3cret\n"
    assert lab.run("config", "set", "--plaintext", "word", "short").status == 0
    assert lab.run("config", "get", "word").out == "short\n"


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("dbPassword", "nq8r4B4xslzrtj0a3", True),
        ("aws:region", "nq8r4B4xslzrtj0a3", False),
        ("token:region", "nq8r4B4xslzrtj0a3", False),
        ("usePassword", "true", False),
        ("secretName", "hcloud", False),
    ],
)
def test_what_looks_like_a_secret(key: str, value: str, *, secret: bool) -> None:
    assert looks_secret(key, value) is secret


def test_a_part_of_a_setting_is_removed_and_what_comes_after_it_moves_up(lab: Lab) -> None:
    for index, name in enumerate(("a", "b", "c")):
        lab.run("config", "set", "--path", f"pools[{index}].name", name)
    assert lab.run("config", "rm", "--path", "pools[1]").status == 0
    assert lab.run("config", "get", "pools").out == '[{"name":"a"},{"name":"c"}]\n'
    lab.run("config", "set", "--path", "pools[0].count", "2")
    for gone in ("pools[0].name", "pools[1]", "pools[7]", "pools[0].none", "pools.none"):
        assert lab.run("config", "rm", "--path", gone).status == 0
    assert lab.run("config", "get", "pools").out == '[{"count":2}]\n'


def test_programs_get_typed_configuration(lab: Lab) -> None:
    lab.write(
        "Pulumi.yaml",
        """\
        name: lab
        runtime: {name: python, options: {toolchain: pip, virtualenv: venv}}
        config:
          count: {type: integer, default: 3}
          active: {type: boolean, default: true}
          zones: {type: array, items: {type: string}, default: [a, b]}
        """,
    )
    lab.up("""
    c = pulumi.Config()
    pulumi.export("all", [c.require_int("count"), c.require_bool("active"), c.require_object("zones")])
    """)
    assert lab.outputs() == {"all": [3, True, ["a", "b"]]}


@pytest.mark.parametrize(
    ("schema", "value"), [("{type: array, items: {type: string}}", '["a"]'), ("{type: object}", '{"a": "b"}')]
)
def test_json_in_a_text_is_no_list_and_no_mapping(lab: Lab, schema: str, value: str) -> None:
    """The genuine CLI refuses it (validateStackConfigValue); without a type the program gets the text."""
    lab.program("pulumi.export('n', pulumi.Config().get('n'))")
    lab.write("Pulumi.yaml", f"name: lab\nruntime: python\nconfig:\n  n: {schema}\n")
    lab.run("config", "set", "n", value)
    assert "'lab:n' must be of type" in lab.run("up", "--yes").err
    lab.write("Pulumi.yaml", "name: lab\nruntime: python\nconfig:\n  n: {default: []}\n")
    assert lab.run("up", "--yes").status == 0
    assert lab.outputs() == {"n": value}


@pytest.mark.parametrize(
    ("wanted", "value"), [("object", '{"s3": {"secretKey": "TOPSECRET"}}'), ("integer", "TOPSECRET")]
)
def test_a_secret_of_the_wrong_type_is_not_shown(lab: Lab, wanted: str, value: str) -> None:
    lab.write("Pulumi.yaml", f"name: lab\nruntime: python\nconfig:\n  n: {{type: {wanted}}}\n")
    lab.program("")
    lab.run("config", "set", "--secret", "n", value)
    done = lab.run("up", "--yes")
    assert f"configuration value 'lab:n' must be of type {wanted}" in done.err
    assert "TOPSECRET" not in done.out + done.err


def test_a_date_of_yaml_is_a_text(lab: Lab) -> None:
    lab.program("pulumi.export('all', [pulumi.Config().get('day'), pulumi.Config().get_object('days')])")
    lab.write("Pulumi.dev.yaml", "config:\n  lab:day: 2026-01-02\n  lab:days: [2026-01-02]\n")
    assert lab.run("up", "--yes").status == 0
    assert lab.outputs() == {"all": ["2026-01-02", ["2026-01-02"]]}


def test_what_is_a_text_to_the_cli_is_one_and_stays_as_it_was_written(lab: Lab) -> None:
    lab.program(
        "c = pulumi.Config()\n"
        "pulumi.export('all', [c.get('time'), c.get('moment'), c.get('none'), c.get_object('times')])"
    )
    lab.write(
        "Pulumi.dev.yaml",
        "config:\n  time: 22:00\n  moment: 2026-01-02T10:00:00Z\n  none:\n  times: [1:30.5, 12:30:45]\n",
    )
    assert lab.run("config", "set", "other", "x").status == 0
    assert lab.run("config", "get", "none").out == "\n"
    assert lab.run("up", "--yes").status == 0
    assert lab.outputs() == {"all": ["22:00", "2026-01-02T10:00:00Z", "", ["1:30.5", "12:30:45"]]}


def test_what_the_project_calls_secret_must_be_encrypted(lab: Lab) -> None:
    lab.program("pulumi.export('n', pulumi.Config().get_secret('n').apply(len))")
    lab.write("Pulumi.yaml", "name: lab\nruntime: python\nconfig:\n  n: {type: string, secret: true}\n")
    lab.run("config", "set", "n", "word")
    assert "configuration value 'lab:n' must be encrypted as it's secret" in lab.run("up", "--yes").err
    lab.run("config", "set", "--secret", "n", "word")
    assert lab.run("up", "--yes").status == 0


def test_the_program_may_lie_in_a_folder_of_its_own(lab: Lab) -> None:
    lab.write("Pulumi.yaml", "name: lab\nruntime: python\nmain: infra/\n")
    (lab.project / "infra").mkdir()
    (lab.project / "infra/__main__.py").write_text("import os, pulumi\npulumi.export('cwd', os.getcwd())\n")
    lab.up()
    assert lab.outputs() == {"cwd": str(lab.project / "infra")}


def test_stacks_are_listed_selected_and_removed(lab: Lab) -> None:
    lab.run("stack", "select", "second", "--create")
    listed = json.loads(lab.run("stack", "ls", "--json").out)
    assert listed == [
        {"name": "dev", "current": False, "resourceCount": 0},
        {"name": "second", "current": True, "resourceCount": 0},
    ]
    assert [line.split()[0] for line in lab.run("stack", "ls").out.splitlines()] == ["NAME", "dev", "second*"]
    assert "Current stack is second" in lab.run("stack").out
    assert lab.run("stack", "rm", "--yes").status == 0
    assert "no stack selected" in lab.run("stack").err


def test_a_stack_that_is_destroyed_and_removed_leaves_nothing(lab: Lab) -> None:
    lab.run("stack", "select", "dev")
    lab.run("config", "set", "a", "b")
    lab.up("")
    assert lab.run("destroy", "--yes", "--remove").status == 0
    assert not (lab.project / "Pulumi.dev.yaml").exists()
    assert "no stack selected" in lab.run("stack").err


def test_a_running_stack_is_locked(lab: Lab) -> None:
    lab.program('Thing("a", word="block")')
    process = lab.start("up", "--yes")
    _wait_for_journal(lab, "blocked")
    refused = lab.run("up", "--yes")
    process.kill()
    process.communicate()
    assert refused.status == 1
    assert f"the stack 'dev' is locked by process {process.pid}" in refused.err


def test_program_and_providers_die_with_the_engine(lab: Lab) -> None:
    lab.program('Thing("a", word="block")\nprint("program", os.getpid(), flush=True)')
    process = lab.start("up", "--yes")
    line = next(line for line in process.stdout or () if "program " in line)
    program = int(line.split()[-1])
    provider = int(_wait_for_journal(lab, "blocked").split()[-1])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 60
    while any(_is_alive(pid) for pid in (program, provider)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    out = lab.up('Thing("a", word="fine")')
    assert "a dynamic provider can't tell how far it came, so it is created again" in out
    assert "pending_operations" not in lab.state()


def _wait_for_journal(lab: Lab, word: str) -> str:
    path = lab.root / "journal"
    deadline = time.monotonic() + 60
    while True:
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            if line.startswith(word):
                return line
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


# --- handing over


def _executable(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_genuine_cli_further_down_the_path_wins(tmp_path: Path) -> None:
    wrapper = "#!/bin/python\nfrom sandbox.engine.__main__ import main\nmain()\n"
    ours = _executable(tmp_path / "ours/pulumi", wrapper)
    _executable(tmp_path / "clone/pulumi", wrapper)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/pulumi").write_text("not executable")
    genuine = _executable(tmp_path / "genuine/pulumi", '#!/bin/sh\necho genuine "$@"; exit 7\n')
    path = os.pathsep.join(str(tmp_path / name) for name in ("ours", "clone", "plain", "genuine"))
    assert find_genuine({"PATH": path}, ours) == genuine
    assert find_genuine({"PATH": str(tmp_path / "ours")}, ours) is None
    command = [sys.executable, "-m", "sandbox.engine", "up", "--whatever"]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("genuine up --whatever\n", 7)
    done = subprocess.run(
        command, env={"PATH": path, "CCMFS_ENGINE": "embedded"}, capture_output=True, text=True, check=False
    )
    assert "has no argument '--whatever'" in done.stderr
