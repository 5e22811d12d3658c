"""An environment that the version before made, in the hands of this one: the same stack, cloud and cluster.

The commit is the one whose CCM wrote `tests/process/version_before.json`.
"""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from image.errors import ToolError
from release import commits
from sandbox import leftovers
from tests.e2e.cluster_state import lease_holder
from tests.e2e.conftest import TREE, Clone, eventually
from tests.e2e.looks import balancers

pytestmark = [pytest.mark.nightly, pytest.mark.cluster, pytest.mark.timeout(1800)]

RECORDED = TREE / "tests" / "process" / "version_before.json"
BEFORE = json.loads(RECORDED.read_text(encoding="utf-8"))["commit"]


@pytest.fixture
def before(tmp_path) -> Iterator[Clone]:
    clone = Clone(tmp_path / "clone")
    try:
        commits.export(TREE, clone.root, BEFORE)
    except ToolError:
        pytest.skip(f"this clone has no history that reaches {BEFORE[:12]}")
    subprocess.run(["git", "init", "--quiet"], cwd=clone.root, check=True, timeout=60)
    site = clone.site
    yield clone
    if clone.dev("down", check=False).returncode:
        clone.dev("down", "--force")
    assert leftovers.find(site) == []


def put_this_version_into(clone: Clone) -> None:
    """As `git pull` does; what the environment left there stays."""
    for name in clone.not_ignored():
        (clone.root / name).unlink()
    commits.copy(TREE, clone.root)


def identities(clone: Clone) -> dict[str, tuple]:
    nodes = clone.nodes().items()
    return {name: (one["metadata"]["uid"], one["spec"], one["metadata"]["labels"]) for name, one in nodes}


def test_nothing_is_recreated(before: Clone) -> None:
    before.dev("up", "--backend", "hollow", "--workers", "1", seconds=1500)  # builds what it pins
    before.dev("kubectl", "apply", "-f", "manifests/examples/service.yaml")
    addressed = "--for=jsonpath={.status.loadBalancer.ingress[0].ip}"
    before.dev("kubectl", "wait", addressed, "service/whoami", "--timeout=60s")
    before.settle()
    seen = before.writes(), balancers(before), identities(before)
    leader = lease_holder(before)

    put_this_version_into(before)
    said = before.dev("up").stdout
    assert re.search(r"\d+ unchanged", said), said
    assert not re.search(r"\d+ (deleted|replaced)", said), said
    # what this version has beside: the stack's own file with its key, and records of its servers
    created = re.findall(r"\+ +\S+:(\w+) \S+ created", said)
    assert {*created} == {"PrivateFile", "ServerGuard", "ServerPlan", "ServerState"}, said
    before.dev("deploy")
    eventually(lambda: lease_holder(before) not in ("", leader), 60, "this version's CCM leads")
    before.settle()
    assert (before.writes(), balancers(before), identities(before)) == seen
