"""The wheel of ccm-from-scratch, in environments outside of the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.installed import TREE, Installed, add, at, begun, once, uv


@pytest.fixture(scope="session")
def packages(shared) -> Path:
    """The folder with the wheel and the source distribution; the first is made from the second."""
    with once(shared, "packages") as new:
        if new:
            uv("build", "--quiet", "--out-dir", str(new), str(TREE))
    return shared / "packages"


@pytest.fixture(scope="session")
def wheel(packages) -> Path:
    (found,) = packages.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def plain(shared, wheel) -> Installed:
    """The wheel without any extra."""
    with begun(shared, "plain") as installed:
        if installed:
            uv("venv", "--quiet", str(installed.root))
            add(installed, wheel.name, wheel.parent)
    return at(shared, "plain")


@pytest.fixture(scope="session")
def full(shared, wheel) -> Installed:
    """The wheel with what tests of another cloud need."""
    with begun(shared, "full") as installed:
        if installed:
            uv("venv", "--quiet", str(installed.root))
            add(installed, f"{wheel.name}[conformance,tracing]", wheel.parent)
    return at(shared, "full")


@pytest.fixture(scope="session")
def with_pulumi(shared, wheel) -> Installed:
    """The wheel with the components of the Pulumi program."""
    with begun(shared, "pulumi") as installed:
        if installed:
            uv("venv", "--quiet", str(installed.root))
            add(installed, f"{wheel.name}[pulumi]", wheel.parent)
    return at(shared, "pulumi")
