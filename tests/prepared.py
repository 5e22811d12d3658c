"""What a test wants and has not got: set-up makes it, or the test itself does with what set-up has made."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from sandbox.commands.test import PREPARED
from sandbox.environment import MACHINES
from sandbox.errors import MissingRequirement
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import Component
from sandbox.site import cache_directory


def missing(
    reason: object, *, for_machines: bool = False, environment: Mapping[str, str] = os.environ
) -> NoReturn:
    """End a test that lacks something that the setup builds or downloads.

    Without a setup, such as in the fast tests, pytest skips the test. After the setup of ``./dev test``, it
    fails, because the build or the download is broken. With ``for_machines``, only hosts of machines need it.
    """
    kind = environment.get(PREPARED, "")
    if kind == MACHINES or (kind and not for_machines):
        pytest.fail(f"'./dev test' has made ready what this needs, and yet: {reason}", pytrace=False)
    pytest.skip(str(reason))


def programs(*components: Component) -> Path:
    """The folder with the programs of components, which are built first."""
    try:
        return toolchain.ensure(cache_directory(os.environ), print, components).bin
    except MissingRequirement as error:
        missing(error)
