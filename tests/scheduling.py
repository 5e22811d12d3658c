"""In which order modules of tests begin, and which of them one process runs one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from xdist.scheduler import LoadScopeScheduling

ENVIRONMENTS = {
    "tests/e2e/test_documents.py": "standard",
    "tests/e2e/test_environment.py": "standard",
}
"""Modules that share an environment with another module, and its fixture (tests/e2e/conftest.py)."""


def group(test: str) -> str:
    """The environment that a test shares with other modules, or else its module.

    Args:
        test: Its node ID.
    """
    module = test.partition("::")[0]
    return ENVIRONMENTS.get(module, module)


def longest_first(items: list[pytest.Item], known: Mapping[str, float]) -> None:
    """Put the groups that took longest first; within a group the order stays.

    Args:
        items: The tests, in pytest's order.
        known: Seconds that each module took when it last ran.
    """
    seconds: Counter[str] = Counter()
    for module in {item.nodeid.partition("::")[0] for item in items}:
        seconds[group(module)] += known.get(module, 0.0)
    items.sort(key=lambda item: (-seconds[group(item.nodeid)], group(item.nodeid)))


class ByEnvironment(LoadScopeScheduling):
    """pytest-xdist's scheduling of whole modules, with modules of one environment as if they were one.

    Its own ``--dist loadgroup`` would do the same, but changes node IDs in a way that pytest 9.2 ignores.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
