"""Which way k3s may go from the version that is installed: up, and not over a minor version. Pure."""

from __future__ import annotations

import re

from .k3s import Release

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)(?:-rc(\d+))?(?:\+k3s(\d+))?", re.ASCII)
_CHANNEL = re.compile(r"v(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)
_FINAL = 10**9
"""Comes after every release candidate."""


def parts(version: str) -> tuple[int, ...] | None:
    """A version as numbers that order it among others; None: it is none that we know.

    Args:
        version: Such as ``v1.36.3+k3s1`` or ``v1.36.4-rc2+k3s1``.
    """
    found = _VERSION.fullmatch(version)
    if not found:
        return None
    major, minor, patch, candidate, build = found.groups()
    return int(major), int(minor), int(patch), int(candidate or _FINAL), int(build or 0)


def wanted_parts(release: Release) -> tuple[int, ...] | None:
    """As much of the version as a release tells before it is installed: all, or a channel's beginning.

    The channels ``stable``, ``latest`` and ``testing`` tell nothing: the installer knows where they lead.
    """
    if release.version:
        return parts(release.version)
    found = _CHANNEL.fullmatch(release.channel)
    return tuple(int(part) for part in found.groups() if part) if found else None


def why_not(installed: str, release: Release) -> str:
    """Why k3s can't go from a version to a release; empty when it can, or nobody knows.

    Kubernetes supports no way down, and none over a minor version
    (https://kubernetes.io/releases/version-skew-policy/); k3s neither
    (https://docs.k3s.io/upgrades).

    Args:
        installed: The version that is there; empty when nobody knows.
        release: What is wanted.
    """
    return _why_not(installed, wanted_parts(release))


def why_not_after(before: str, after: str) -> str:
    """Why an installation that is done should not have been; empty when all is well."""
    return _why_not(before, parts(after))


def _why_not(installed: str, wanted: tuple[int, ...] | None) -> str:
    here = parts(installed)
    if here is None or wanted is None:
        return ""
    if wanted < here[: len(wanted)]:
        return f"it is older than {installed}, which is installed, and there is no way back to an older one"
    if wanted[0] != here[0] or wanted[1] > here[1] + 1:
        step = f"v{here[0]}.{here[1] + 1}"
        return (
            f"{installed} is installed, and a minor version must not be left out: go to one of {step} first"
        )
    return ""
