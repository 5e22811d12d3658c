"""The wheel of ccm-from-scratch, in environments outside of the tree."""

from collections.abc import Callable
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


def installed(name: str, extras: str = "") -> Callable[..., Installed]:
    """A fixture with an environment that has the wheel and some of its extras."""

    @pytest.fixture(scope="session", name=name)
    def environment(shared, wheel) -> Installed:
        with begun(shared, name) as new:
            if new:
                uv("venv", "--quiet", str(new.root))
                add(new, f"{wheel.name}{extras}", wheel.parent)
        return at(shared, name)

    return environment


plain = installed("plain")
full = installed("full", "[conformance,tracing]")
"""What tests of another cloud need."""
with_pulumi = installed("with_pulumi", "[pulumi]")
"""With the components of the Pulumi program."""
