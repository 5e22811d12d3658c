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
    """End a test that lacks something which is built or fetched.

    It is skipped where nobody has made anything ready: in the fast tests, and by pytest alone. After the
    set-up of ``./dev test`` it fails: what can't be built or fetched then is broken, and without the test
    nobody would hear of it.

    Args:
        reason: What is missing.
        for_machines: Whether that is made only where machines can run; elsewhere the test is skipped.
        environment: Tells what was made ready.

    Raises:
        pytest.fail.Exception: It should be there.
        pytest.skip.Exception: Nobody made it ready.
    """
    kind = environment.get(PREPARED, "")
    if kind == MACHINES or (kind and not for_machines):
        pytest.fail(f"'./dev test' has made ready what this needs, and yet: {reason}", pytrace=False)
    pytest.skip(str(reason))
