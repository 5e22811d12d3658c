"""What the flags amount to where that is not the flag's value itself."""

from __future__ import annotations

import pytest

from ccm.manager.flags import FLAGS, parse_flags
from ccm.manager.options import Options


@pytest.mark.parametrize(
    ("given", "wanted"),
    [([], 10), (["--concurrent-node-syncs=1"], 1), (["--concurrent-node-syncs=3"], 3)],
)
def test_ten_nodes_are_initialised_at_once_by_default(given: list[str], wanted: int) -> None:
    assert Options(parse_flags(FLAGS, given)).node_syncs == wanted
