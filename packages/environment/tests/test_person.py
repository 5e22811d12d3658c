import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import dev
from sandbox.commands import bench, deploy, env, plan, test
from sandbox.dev import parse
from sandbox.errors import SandboxError

ROOT = Path(__file__).resolve().parents[3]


def typed(words, cache, output, **variables):
    """Run a command with a separate cache, so that this clone's claim stays."""
    command, environment = [sys.executable, *words], {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    pipes = {"stdout": output, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=60, **pipes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["-m", "sandbox", "--help"],
        ["-m", "sandbox", "bench"],
        ["-m", "sandbox", "test", "--help"],
        ["-m", "ccm", "--help"],
        ["-m", "ccm", "lint", "--help"],
        ["-m", "ccm", "lint", "--for=official", "manifests/examples/service.yaml"],
    ],
)
def test_a_closed_pipe_ends_a_command_quietly(words, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = typed(words, tmp_path, writer)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in {0, 141}  # argparse swallows it


def test_terminals_without_unicode(tmp_path):
    done = typed(["-m", "sandbox", "doctor"], tmp_path, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.stderr == ""
    assert "Python" in done.stdout


def test_a_broken_connection(site, monkeypatch, capsys):
    def broken(_site, _arguments):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(dev.importlib.import_module("sandbox.commands.status"), "run", broken)
    monkeypatch.setattr(dev, "ROOT", site.root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(site.cache.parent))
    assert dev.main(["status"]) == 1
    assert "Broken pipe" in capsys.readouterr().err


def test_help_runs_no_tests_and_needs_no_environment(site, tmp_path, capsys):
    for words in (["--help"], ["unit", "--help"], ["lint", "-h"]):
        assert test.run(site, parse(["test", *words])[1]) == 0
        assert "usage: ./dev test [unit | lint | all" in capsys.readouterr().out
    done = typed(["-m", "sandbox", "plan", "services", "--help"], tmp_path, subprocess.PIPE)
    assert "python -m ccm plan [SUBJECT]" in done.stdout, done.stderr


def test_the_list_of_comparisons(site, capsys):
    (site.root / "bench").symlink_to(ROOT / "bench")
    assert bench.run(site, parse(["bench"])[1]) == 0
    listed = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
    assert bench.headline('"""``x``: What it costs.\n\nMore."""') == "What it costs"


def test_env_without_an_environment_prints_nothing(site, capsys):
    with pytest.raises(SandboxError, match="isn't running; start it with"):
        env.run(site, parse(["env"])[1])
    assert capsys.readouterr().out == ""
    with pytest.raises(SandboxError, match="isn't running; start it with"):
        plan.run(site, parse(["plan", "services"])[1])


def test_the_words_of_ssh(capsys):
    assert parse(["ssh", "control"])[1].words == ["control"]
    words = ["worker-1", "ls", "-l", "--", "/"]
    assert parse(["ssh", *words])[1].words == words
    with pytest.raises(SystemExit, match="2"):
        parse(["ssh"])
    said = capsys.readouterr().err
    assert "usage: ./dev ssh [-h] NAME [COMMAND ...]" in said
    assert "required: NAME" in said


def test_invalid_python_is_not_rolled_out(site):
    (site.root / "ccm" / "x").mkdir(parents=True)
    (site.root / "ccm" / "good.py").write_text("a = 1\n")
    deploy.check_source(site.root, (site.root / "ccm").rglob("*.py"))
    (site.root / "ccm" / "x" / "bad.py").write_text("a = 1\nb = )\n")
    with pytest.raises(SandboxError, match=r"^ccm/x/bad.py, line 2: "):
        deploy.check_source(site.root, (site.root / "ccm").rglob("*.py"))
    (site.root / "ccm" / "x" / "bad.py").write_bytes(b"a = \xff\n")
    with pytest.raises(SandboxError, match=r"^ccm/x/bad.py"):
        deploy.check_source(site.root, (site.root / "ccm").rglob("*.py"))


def test_settings_of_the_shell_do_not_override_the_deployment(site):
    shell = {"HCLOUD_NETWORK": "other", "ROBOT_ENABLED": "true", "HOME": "/h", "PATH": "/bin"}
    flags, variables = plan._in_pod(site, shell)
    assert flags == ["--settings-from=deployment/kube-system/ccm-from-scratch"]
    assert "HCLOUD_NETWORK" not in variables
    assert "ROBOT_ENABLED" not in variables
    assert variables["HCLOUD_ENDPOINT"] == site.endpoint
    assert variables["KUBECONFIG"] == str(site.kubeconfig)
    assert variables["HOME"] == "/h"
