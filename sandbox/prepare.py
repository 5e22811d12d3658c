"""Set-up: packages, toolchain, machine image; each is kept and only made when its pins have changed."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox import packages
from sandbox.console import Steps
from sandbox.errors import NotRunning
from sandbox.kubernetes import image, toolchain
from sandbox.site import Site


@dataclass(frozen=True)
class Prepared:
    """What set-up has made or found."""

    toolchain: toolchain.Toolchain
    image: image.MachineImage | None


def prepare(site: Site, steps: Steps, *, machines: bool = True) -> Prepared:
    """Make everything that an environment needs before it can start.

    Args:
        site: this clone's.
        steps: where to tell about it.
        machines: whether machines will run; without them no image is built and no package installed.

    Raises:
        SandboxError: something can't be had; the text says what to do.
    """
    if machines:
        with steps.step("Debian packages") as progress:
            packages.ensure(progress)
    with steps.step("Kubernetes toolchain (≈ 10 min the first time)", "Kubernetes toolchain") as progress:
        built = toolchain.ensure(site.cache, progress)
    if not machines:
        return Prepared(built, None)
    with steps.step("Machine image (≈ 3 min the first time)", "Machine image") as progress:
        return Prepared(built, image.ensure(site.cache, built, progress))


def built_toolchain(site: Site) -> toolchain.Toolchain:
    """The toolchain, for commands that don't build it.

    Raises:
        NotRunning: it has not been built.
    """
    built = toolchain.find(site.cache)
    if built is None:
        raise NotRunning(
            "the Kubernetes toolchain has not been built yet; './dev up' or './dev setup' builds it"
        )
    return built
