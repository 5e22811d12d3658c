"""What the start costs, as it is told."""

from __future__ import annotations

import pytest

from bench.start import rows, shares

TRACE = """\
import time: self [us] | cumulative | imported package
import time:       100 |        100 |   aiohttp.client
import time:       200 |        300 | aiohttp
I1122 10:00:00 ccm.kube] "a line of the log | with 5 | bars"
import time:       500 |        900 |       ccm.kube.http
import time:       200 |        200 | ccm.kube
"""


def test_imports_are_shares_by_package_and_ours_by_folder() -> None:
    assert shares(TRACE) == {"ccm.kube": 0.7, "aiohttp": 0.3}
    assert list(shares(TRACE)) == ["ccm.kube", "aiohttp"], "the largest first"


def test_steps_add_up_to_what_the_process_needed() -> None:
    table = rows(10, "here", {"ours": (0.5, 2.0)}, (0.02, 0.3, 0.04), {"aiohttp": 0.25})
    whole, *steps = table[:4]
    assert whole.ours == 0.5
    assert whole.peer is None
    assert sum(row.ours for row in steps) == pytest.approx(0.5)
    assert "aiohttp 25%" in steps[1].note


def test_the_peers_figures_stand_beside_ours() -> None:
    found = {"ours": (0.3, 2.0), "peer": (0.05, 0.5)}
    table = rows(10, "here", found, (0.02, 0.2, 0.04), {})
    assert [row.peer for row in table if row.peer is not None] == [0.05, 0.5]
