"""Kubernetes' programs as set-up (``prepare.py``) has built them, for commands that only run them."""

from __future__ import annotations

from sandbox import stack_settings
from sandbox.backend_choice import present
from sandbox.environment import HOLLOW, STACKS
from sandbox.errors import SandboxError
from sandbox.hollow import version as hollow_version
from sandbox.kubernetes import releases, toolchain
from sandbox.site import Clone


def find_toolchain(clone: Clone) -> toolchain.Toolchain | None:
    """Programs of the version that this clone's environment has, else of the default one, or None."""
    own = toolchain.find(clone.cache, releases.control_plane(version_here(clone)))
    return own or toolchain.find_control_plane(clone.cache)


def version_here(clone: Clone) -> str:
    """The Kubernetes version of this clone's environment, or the default."""
    kind = present(clone)
    if kind == HOLLOW and (kept := hollow_version.kept(clone)):
        return kept
    try:
        return stack_settings.Settings(clone, STACKS[kind]).kubernetes if kind else releases.default()
    except SandboxError:  # the setting is invalid; './dev up' reports it
        return releases.default()


def built_toolchain(clone: Clone, version: str = "") -> toolchain.Toolchain:
    """The toolchain, for commands that don't build it."""
    own = toolchain.find(clone.cache, releases.control_plane(version)) if version else None
    built = own if version else find_toolchain(clone)
    if built is None:
        raise SandboxError(
            "the Kubernetes toolchain has not been built yet; './dev up' or './dev setup' builds it"
        )
    return built
