import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from sandbox.errors import SandboxError
from sandbox.testing import durations, inotify
from sandbox.testing.durations import LayerSpan, Span
from sandbox.testing.selection import files_for

TREE = Path(__file__).parents[3]
SLOW_TEST = """
import subprocess, time
import pytest
@pytest.fixture(scope="module")
def made():
    time.sleep(0.2)
def test_it(made):
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"], check=True)
"""


@pytest.mark.slow
def test_tests_and_fixtures_are_recorded(tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW_TEST)
    (tmp_path / "conftest.py").write_text(
        "import os\nfrom pathlib import Path\nfrom tests.recording import Recorder\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Recorder(Path(os.environ['INTO']), 'unit'))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    environment = {**os.environ, "INTO": str(tmp_path / "run"), "PYTHONPATH": str(TREE)}
    subprocess.run([*command, str(tmp_path)], cwd=tmp_path, env=environment, check=True, timeout=60)
    spans = {span.kind: span for span in durations.read_spans(tmp_path / "run")}
    assert spans["fixture"].name == "made (module)"
    assert spans["fixture"].wall >= 0.2 > spans["fixture"].cpu
    assert spans["call"].name == "test_slow.py::test_it"
    assert spans["call"].cpu > 0.02, "of the child that ended in it"


def test_tables_of_durations(tmp_path):
    folder = tmp_path / "run"
    durations.begin(folder)
    spans = [
        Span("unit", "tests/a.py::x", "call", "tests/a.py", 2.0, 0.5),
        Span("unit", "tests/a.py::x", "setup", "tests/a.py", 1.0, 0.1),
        Span("unit", "made (module)", "fixture", "tests/a.py", 1.0, 0.1),
    ]
    lines = [json.dumps(asdict(span)) for span in spans]
    (folder / "unit-1.jsonl").write_text("\n".join(lines) + '\n{"layer": "un')  # killed while it wrote
    durations.write_layers(folder, [LayerSpan("unit", 4.0, 2.0, 2)])
    shown = durations.tables(durations.read_layers(folder), list(durations.read_spans(folder)))
    assert shown.splitlines()[1].split() == ["unit", "4.0", "2.0", "25%", "1", "3.0", "0.6"]
    assert "     3.0      0.6      2.4  tests/a.py (unit)" in shown
    assert "     1.0      0.1      0.9  tests/a.py: made (module)" in shown
    durations.keep_modules(folder)
    durations.begin(folder)
    (folder / "unit-1.jsonl").write_text(lines[0])  # a run of a part
    durations.keep_modules(folder)
    assert durations.known_modules(folder) == {"tests/a.py": 3.0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise it")
def test_the_limit_is_restored_after_the_last_run(tmp_path):
    lock, limit = tmp_path / "lock", tmp_path / "limit"
    limit.write_text("128")
    with inotify.raised(lock, limit):
        with inotify.raised(lock, limit):
            assert limit.read_text() == "1024"
        assert limit.read_text() == "1024"
    assert limit.read_text() == "128"
    limit.write_text("1024")
    lock.write_text("128")  # what a run that was killed has left
    with inotify.raised(lock, limit):
        pass
    assert limit.read_text() == "128"


def test_paths_select_the_tests_that_use_them():
    assert files_for(TREE, ["tests/unit/kube"]) == ["tests/unit/kube"]
    found = files_for(TREE, ["ccm/kube/queue.py"])
    assert "tests/unit/kube/test_kube_queue.py" in found
    assert "tests/infra/test_pools.py" not in found
    assert "tests/charts/test_chart.py" in files_for(TREE, ["charts"])
    assert set(found) <= set(files_for(TREE, ["ccm/kube"])) <= set(files_for(TREE, ["ccm"]))
    assert files_for(TREE, ["packages/emulator"]) == ["packages/emulator"]
    found = files_for(TREE, ["packages/emulator/src/hetzner_emulator/wire/pagination.py"])
    assert "packages/emulator/tests/test_cloud_pagination.py" in found
    assert "packages/emulator/tests/test_cloud_zones.py" not in found


@pytest.mark.parametrize("path", ["nowhere.py", "unused.py"])
def test_a_path_without_tests_is_named(tmp_path, path):
    (tmp_path / "unused.py").touch()
    with pytest.raises(SandboxError, match=path):
        files_for(tmp_path, [path])
