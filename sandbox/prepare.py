"""Set-up: packages, toolchain, machine image; each is kept and only made when its pins have changed."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox import packages
from sandbox.console import Steps
from sandbox.environment import MACHINES
from sandbox.errors import NotRunning
from sandbox.kinds import Choice
from sandbox.kubernetes import image, toolchain
from sandbox.kubernetes.components import REGISTRY
from sandbox.site import Clone


@dataclass(frozen=True)
class Prepared:
    """What set-up has made or found; no machine image where servers are no machines."""

    toolchain: toolchain.Toolchain
    image: image.MachineImage | None


def announce(choice: Choice, steps: Steps) -> None:
    """Tell what servers are here, where it is not what a person would expect."""
    if choice.reason:
        steps.note(f"• servers are records with hollow nodes here, without Pods and traffic: {choice.reason}")


def prepare(clone: Clone, steps: Steps, choice: Choice) -> Prepared:
    """Make everything that an environment needs before it can start.

    Args:
        clone: This one.
        steps: Where to tell about it.
        choice: What servers will be, and the packages that this needs.

    Raises:
        SandboxError: Something can't be had; the text says what to do.
    """
    with steps.step("Debian packages") as progress:
        packages.ensure(choice.packages, progress)
    with steps.step("Kubernetes toolchain (≈ 10 min the first time)", "Kubernetes toolchain") as progress:
        built = toolchain.ensure(clone.cache, progress, choice.components)
        if choice.kind == MACHINES:
            toolchain.ensure(clone.cache, progress, [REGISTRY])  # no machine runs it: not in their image
    if choice.kind != MACHINES:
        return Prepared(built, None)
    with steps.step("Machine image (≈ 3 min the first time)", "Machine image") as progress:
        return Prepared(built, image.ensure(clone.cache, built, progress))


def built_toolchain(clone: Clone) -> toolchain.Toolchain:
    """The toolchain, for commands that don't build it.

    Raises:
        NotRunning: It has not been built.
    """
    built = toolchain.find_control_plane(clone.cache)
    if built is None:
        raise NotRunning(
            "the Kubernetes toolchain has not been built yet; './dev up' or './dev setup' builds it"
        )
    return built
