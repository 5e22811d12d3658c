"""What a test wants and has not got: set-up makes it, or the test itself does with what set-up has made."""

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest

from sandbox.commands.test import PREPARED
from sandbox.environment import MACHINES


def missing(
    reason: object, *, for_machines: bool = False, environment: Mapping[str, str] = os.environ
) -> NoReturn:
    """End a test that lacks something that the setup builds or downloads.

    Without a setup, the test is skipped: in the fast tests, and if you run pytest yourself. After the setup
    of ``./dev test``, the test fails, because a program that the setup can't build or download is broken.

    Args:
        reason: What is missing.
        for_machines: Whether that is made only where machines can run; elsewhere the test is skipped.
        environment: Contains what the setup prepared.

    Raises:
        pytest.fail.Exception: It should be there.
        pytest.skip.Exception: No setup ran.
    """
    kind = environment.get(PREPARED, "")
    if kind == MACHINES or (kind and not for_machines):
        pytest.fail(f"'./dev test' has made ready what this needs, and yet: {reason}", pytrace=False)
    pytest.skip(str(reason))
