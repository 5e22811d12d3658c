import itertools
from types import SimpleNamespace

import pytest

from sandbox.commands import test as command
from sandbox.environment import HOLLOW, MACHINES
from sandbox.testing import layers
from tests.prepared import missing


@pytest.mark.parametrize(
    ("prepared", "for_machines", "outcome"),
    [
        ("", False, pytest.skip.Exception),
        ("", True, pytest.skip.Exception),
        (MACHINES, False, pytest.fail.Exception),
        (MACHINES, True, pytest.fail.Exception),
        (HOLLOW, False, pytest.fail.Exception),
        (HOLLOW, True, pytest.skip.Exception),  # no machine can run there
    ],
)
def test_missing_parts_are_skipped_unless_prepared(prepared, for_machines, outcome):
    with pytest.raises(outcome, match="no Go compiler"):
        missing("no Go compiler", for_machines=for_machines, environment={command.PREPARED: prepared})


@pytest.mark.parametrize("servers", [HOLLOW, MACHINES])
def test_joined_layers_have_the_same_tests(servers):
    def selected(layers, marks):
        return any(eval(layer.marks, {}, marks) for layer in layers)

    for values in itertools.product([False, True], repeat=3):
        marks = dict(zip(("slow", "machines", "cluster"), values, strict=True))
        assert selected(layers.joined(servers), marks) == selected(layers.layers(servers), marks)


@pytest.mark.slow
def test_prepared_parts_of_layers(tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text(
        f"import os\ndef test():\n    assert os.environ[{command.PREPARED!r}] == os.environ['EXPECTED']\n"
    )
    reports = tmp_path / "reports"
    reports.mkdir()
    clone = SimpleNamespace(root=tmp_path, cache=tmp_path, durations=tmp_path / "durations" / "id")
    tests = command.Run(clone, reports, "", prepared=MACHINES)
    monkeypatch.setenv(command.PREPARED, "stale")  # of a run around this one
    for layer, expected in ((layers.UNIT, ""), (layers.PROCESSES, MACHINES)):
        monkeypatch.setenv("EXPECTED", expected)
        arguments = ["-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]
        assert tests._pytest(layer, arguments) == 0
