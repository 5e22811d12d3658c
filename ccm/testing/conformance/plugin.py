"""The plugin for pytest: the option that names a harness, and the fixture ``harness``."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from ccm.testing.conformance.harness import Harness

OPTION = "--ccm-harness"
_PACKAGE = "ccm.testing.conformance"
MODULES = tuple(
    f"{_PACKAGE}.{name}"
    for name in (
        "cloud",
        "instances",
        "load_balancers",
        "routes",
        "node_controllers",
        "service_controller",
        "route_controller",
    )
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the harness."""
    group = parser.getgroup("ccm", "conformance of clouds")
    group.addoption(
        OPTION,
        metavar="MODULE:CLASS",
        default="",
        help="the class of the harness. The conformance suite tests the cloud of this harness",
    )


@pytest_asyncio.fixture(name="harness")  # a module has this name, so the function has another
async def harness_named_by_option(request: pytest.FixtureRequest) -> AsyncGenerator[Harness, None]:
    """The opened harness that ``--ccm-harness`` names. Tests may define their own fixture instead."""
    async with load(str(request.config.getoption(OPTION))).opened() as one:
        yield one


def load(place: str) -> type[Harness]:
    """Import a harness by ``MODULE:CLASS``; raises pytest.UsageError."""
    module, _, name = place.partition(":")
    try:
        return cast("type[Harness]", getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"{OPTION}={place}: can't load a harness (MODULE:CLASS): {error}") from error
