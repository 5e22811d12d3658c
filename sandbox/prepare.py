"""Set-up: packages, toolchain, machine image; each is kept and only made when its pins have changed."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox import packages, stack_settings
from sandbox.console import Steps
from sandbox.environment import HOLLOW, MACHINES, STACKS
from sandbox.errors import NotRunning, SandboxError
from sandbox.hollow import version as hollow_version
from sandbox.kinds import Choice, present
from sandbox.kubernetes import image, releases, toolchain
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
    first = f"Kubernetes toolchain ({choice.build_time} the first time)"
    with steps.step(first, "Kubernetes toolchain") as progress:
        built = [toolchain.ensure(clone.cache, progress, one) for one in choice.toolchains]
    if choice.kind != MACHINES:
        return Prepared(built[-1], None)
    with steps.step("Machine image (≈ 3 min the first time)", "Machine image") as progress:
        return Prepared(built[-1], image.ensure(clone.cache, built[0], progress))


def find_toolchain(clone: Clone) -> toolchain.Toolchain | None:
    """Programs of the version that this clone's environment has, else of the default one, or None."""
    own = toolchain.find(clone.cache, releases.control_plane(version_here(clone)))
    return own or toolchain.find_control_plane(clone.cache)


def version_here(clone: Clone) -> str:
    """The version of Kubernetes that this clone's environment has; the default where none can be told."""
    kind = present(clone)
    if kind == HOLLOW and (kept := hollow_version.kept(clone)):
        return kept
    try:
        return stack_settings.Settings(clone, STACKS[kind]).kubernetes if kind else releases.default()
    except SandboxError:  # the setting is wrong; who brings the environment up is told
        return releases.default()


def built_toolchain(clone: Clone, version: str = "") -> toolchain.Toolchain:
    """The toolchain, for commands that don't build it.

    Args:
        clone: This one.
        version: Of this version and no other; empty: as :func:`find_toolchain`.

    Raises:
        NotRunning: It has not been built.
    """
    own = toolchain.find(clone.cache, releases.control_plane(version)) if version else None
    built = own if version else find_toolchain(clone)
    if built is None:
        raise NotRunning(
            "the Kubernetes toolchain has not been built yet; './dev up' or './dev setup' builds it"
        )
    return built
