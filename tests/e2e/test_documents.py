"""Each command of README, tutorial and guides runs as typed, in their order, in one environment.

What the pages show of the output is compared with what was printed, but for what varies.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.e2e.conftest import Clone
from tests.e2e.reader import Reading

pytestmark = [pytest.mark.cluster(workers=3), pytest.mark.timeout(900)]

PAGES = (
    "README.md",
    "docs/guides/cost.md",  # what it shows is what there is after the first up
    "docs/tutorial/0-what-does-the-ccm-do.md",
    "docs/tutorial/1-boilerplate.md",
    "docs/tutorial/2-development-environment.md",
    "docs/tutorial/3-nodes.md",
    "docs/tutorial/4-load-balancers.md",
    "docs/tutorial/5-routes.md",
    "docs/tutorial/6-another-cloud.md",
    "docs/guides/operating.md",
    "docs/guides/from-the-official-ccm.md",
    "docs/guides/daily-work.md",
    "docs/guides/helm.md",
    "docs/guides/kustomize.md",
    "docs/guides/image.md",
    "docs/guides/releasing.md",
    "docs/guides/kubernetes-tests.md",
    "docs/guides/pools.md",
    "docs/guides/backup-and-restore.md",
)


@dataclass(frozen=True)
class Reader:
    """Who reads the pages in order.

    Attributes:
        clone: Where.
        said: What its first command, the README's ``./dev up``, has printed.
    """

    clone: Clone
    said: str


@pytest.fixture(scope="module")
def reader(clone):
    said = clone.dev("up").stdout
    clone.settle()
    return Reader(clone, said)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_typed_and_print_what_it_shows(reader, page):
    with Reading(reader.clone, page, already=reader.said if page == "README.md" else "") as reading:
        reading.rest()
