"""What pytest gets from us: the option that names a harness, and the fixture ``harness``."""

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
    """Let the harness be named on the command line."""
    group = parser.getgroup("ccm", "conformance of clouds")
    group.addoption(
        OPTION,
        metavar="MODULE:CLASS",
        default="",
        help="the class of the harness. The conformance suite tests the cloud of this harness",
    )


@pytest_asyncio.fixture(name="harness")  # the name of a module here, so the function has another one
async def harness_named_by_option(request: pytest.FixtureRequest) -> AsyncGenerator[Harness, None]:
    """The harness that ``--ccm-harness`` names, opened; tests may define a fixture of their own."""
    async with load(str(request.config.getoption(OPTION))).opened() as one:
        yield one


def load(place: str) -> type[Harness]:
    """Import a harness by ``MODULE:CLASS``; raises pytest.UsageError."""
    module, _, name = place.partition(":")
    try:
        return cast("type[Harness]", getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"{OPTION}={place}: can't load a harness (MODULE:CLASS): {error}") from error
