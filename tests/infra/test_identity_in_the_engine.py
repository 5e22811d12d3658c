"""The only control server is another one, in the engine: what of its cluster is made anew."""

from pathlib import Path

import pytest

from tests.infra.engine.thing_lab import ThingLab

pytestmark = pytest.mark.slow

PROGRAM = """
from ccm_pulumi.cluster.identity import ClusterIdentity

E = os.environ
snapshots = bool(E["SNAPSHOTS"])
token = Thing("token")
control = Thing("control", host=E["HOST"], first=True)
cluster = ClusterIdentity(
    "cluster", O(depends_on=[control]), text=control.id, several=False, begun=False, provider=None,
    settings={}, snapshots=snapshots or None, restores=bool(E["RESTORES"]) or None,
)
Thing("object", host=cluster.generation, first=True, opts=O(deleted_with=cluster))
"""


@pytest.fixture
def up(tmp_path: Path):
    """Runs the program with one control server on a host; what was created and deleted by it."""
    lab = ThingLab(tmp_path)
    lab.program(PROGRAM)
    lab.environment["PYTHONPATH"] = f"{lab.project}:{Path(__file__).parents[2]}"
    journal = tmp_path / "journal"

    def run(host: str, *, snapshots: bool = True, restores: bool = False) -> list[str]:
        journal.write_text("")
        wishes = {"SNAPSHOTS": "1" if snapshots else "", "RESTORES": "1" if restores else ""}
        done = lab.run("up", "--yes", HOST=host, **wishes)
        assert done.status == 0, done.out + done.err
        return journal.read_text().splitlines()

    return run


def test_what_is_in_the_cluster_stays_where_it_comes_out_of_a_snapshot(up) -> None:
    up("a", snapshots=False)
    assert up("a") == []
    assert up("b", restores=True) == ["delete control", "create control"]
    assert up("b", restores=True) == []
    assert up("b") == []


def test_what_is_in_the_cluster_is_made_anew_where_that_is_empty(up) -> None:
    up("a")
    made = up("b")
    assert made.index("create control") < made.index("create object")
    assert "delete object" not in made, "it went with its cluster, which may not answer any more"
    assert up("b") == []
    for host in ("c", "d"):
        assert "create object" in up(host, snapshots=False)
        assert up(host, snapshots=False) == []
