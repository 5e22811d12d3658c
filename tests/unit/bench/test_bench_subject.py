import os
from pathlib import Path

import pytest

from bench import nodes
from bench.lab.subject import OURS, environment, flags
from ccm.hetzner.settings import VARIABLES, read
from ccm.manager.flags import FLAGS, parse_flags
from ccm.manager.options import problems_of


@pytest.mark.parametrize("kubeconfig", [None, Path(os.devnull)])
@pytest.mark.parametrize("routes", [False, True])
def test_flags_are_those_of_the_ccm(kubeconfig: Path | None, routes: bool) -> None:
    assert problems_of(parse_flags(FLAGS, [*flags(kubeconfig, routes=routes), *OURS.flags])) == []


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("more", [{}, nodes.OFF])
def test_variables_are_those_of_the_ccm(network: bool, more: dict[str, str]) -> None:
    given = environment("http://127.0.0.1:1/v1", network=network, more=more)
    assert set(given) <= {variable.name for variable in VARIABLES}
    assert read(given).warnings == ()
