"""Each command of README, tutorial and guides runs as typed, in their order, in one environment.

What the pages show of the output is compared with what was printed, but for what varies.
"""

import shutil

import pytest

from sandbox.kubernetes import releases
from tests.e2e import server_loss, workload
from tests.e2e.conftest import TREE
from tests.e2e.documents import edits_in
from tests.e2e.reader import Reading

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FIRST = (
    "README.md",
    "docs/tutorial/0-what-does-the-ccm-do.md",
    "docs/tutorial/1-boilerplate.md",
    "docs/tutorial/2-development-environment.md",
    "docs/tutorial/3-nodes.md",
    "docs/tutorial/4-load-balancers.md",
    "docs/tutorial/5-routes.md",
    "docs/tutorial/6-another-cloud.md",
)
GUIDES = (
    "docs/guides/cost.md",
    "docs/guides/hetzner.md",
    "docs/guides/operating.md",
    "docs/guides/from-the-official-ccm.md",
    "docs/guides/daily-work.md",
    "docs/guides/helm.md",
    "docs/guides/kustomize.md",
    "docs/guides/image.md",
    "docs/guides/releasing.md",
    "docs/guides/kubernetes-tests.md",
    "docs/guides/pools.md",
)
RESTORE = "docs/guides/backup-and-restore.md"
CONTRIBUTION = "docs/tutorial/7-a-contribution.md"
PAGES = (*FIRST, *GUIDES, RESTORE, CONTRIBUTION)


@pytest.mark.parametrize(
    "page", [*FIRST, *(pytest.param(page, marks=pytest.mark.nightly) for page in GUIDES)]
)
def test_the_commands_of_a_page_run_as_typed_and_print_what_it_shows(environment, page, kubernetes_version):
    if kubernetes_version != releases.default():
        pytest.skip("pages show the default version")
    environment.reset()  # what the page before left
    with Reading(environment, page, already=environment.said if page == "README.md" else "") as reading:
        reading.rest()


@pytest.mark.nightly
def test_the_only_control_server_is_lost_and_the_cluster_comes_back(environment, kubernetes_version):
    if kubernetes_version != releases.default():
        pytest.skip("pages show the default version")
    environment.reset()
    workload.deploy(environment)
    with server_loss.restored(environment, ["control"]), Reading(environment, RESTORE) as reading:
        reading.rest()


@pytest.mark.nightly
def test_a_contribution_labels_a_node(environment):
    changed = {edit.name for edit in edits_in((TREE / CONTRIBUTION).read_text(encoding="utf-8"))}
    try:
        with Reading(environment, CONTRIBUTION) as reading:
            reading.rest()
    finally:
        for name in changed:  # the page changes the sources of the clone
            shutil.copyfile(TREE / name, environment.root / name)
