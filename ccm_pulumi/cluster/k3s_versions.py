"""Supported upgrades of k3s, and the version of a server that joins a cluster with a channel."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from ..config.k3s import Release

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)(?:-rc(\d+))?(?:\+k3s(\d+))?", re.ASCII)
_CHANNEL = re.compile(r"v(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)
OLDEST_KUBELET = 3
"""A kubelet may be at most this many minor versions older than an API server
(https://kubernetes.io/releases/version-skew-policy/)."""
_FINAL = 10**9
"""Comes after every release candidate."""


def parts(version: str) -> tuple[int, ...] | None:
    """A version such as ``v1.36.4-rc2+k3s1`` as numbers for comparisons; None: its form is unknown."""
    found = _VERSION.fullmatch(version)
    if not found:
        return None
    major, minor, patch, candidate, build = found.groups()
    return int(major), int(minor), int(patch), int(candidate or _FINAL), int(build or 0)


def wanted_parts(release: Release) -> tuple[int, ...] | None:
    """The part of the version that is known before the installation: all of it, or that of a channel's name.

    The channels ``stable``, ``latest`` and ``testing`` have none; only k3s's channel server knows.
    """
    if release.version:
        return parts(release.version)
    found = _CHANNEL.fullmatch(release.channel)
    return tuple(int(part) for part in found.groups() if part) if found else None


def why_not(installed: str, release: Release, *, restores: bool = False) -> str:
    """Why k3s can't be changed from a version to a release; empty if it can, or if unknown.

    Kubernetes supports no downgrade, and no skipped minor version
    (https://kubernetes.io/releases/version-skew-policy/). Neither does k3s
    (https://docs.k3s.io/upgrades), except for a datastore from a snapshot that the older version wrote
    (https://docs.k3s.io/upgrades/roll-back).
    """
    here, wanted = parts(installed), wanted_parts(release)
    if here is None or wanted is None:
        return ""
    if wanted < here[: len(wanted)]:
        if restores:
            return ""
        return f"{installed} is installed, and k3s does not support downgrades"
    if wanted[0] != here[0] or wanted[1] > here[1] + 1:
        step = f"v{here[0]}.{here[1] + 1}"
        return f"{installed} is installed, and k3s can't skip a minor version. Upgrade to {step} first"
    return ""


def changes_minor(installed: str, release: Release, leads: str = "") -> bool:
    """Whether an API server gets another minor version, as far as it is known. ``leads`` is the version of
    the release's channel; empty: unknown.
    """
    here, wanted = parts(installed), wanted_parts(release) or parts(leads)
    return wanted is not None and (here is None or here[:2] != wanted[:2])


def left_behind(kubelets: Mapping[str, str], installed: str, release: Release, leads: str = "") -> list[str]:
    """Names of Nodes, sorted, whose kubelet would be too old for an API server of another minor version."""
    wanted = wanted_parts(release) or parts(leads)
    if wanted is None or not changes_minor(installed, release, leads):
        return []
    known = {name: found for name, version in kubelets.items() if (found := parts(version))}
    return sorted(
        name for name, (major, minor, *_) in known.items() if (major, minor + OLDEST_KUBELET) < wanted[:2]
    )


def follows(release: Release, version: str) -> bool:
    """Whether a release may have led to a version; always for ``stable``."""
    wanted, has = wanted_parts(release), parts(version)
    return wanted is None or has is None or has[: len(wanted)] == wanted


def pinned(release: Release, version: str) -> Release:
    """The release for a server that must not get another k3s than those that it joins.

    A channel moves on by itself, and a kubelet must not be newer than an API server
    (https://kubernetes.io/releases/version-skew-policy/). An exact version in the settings stays, and so does
    the channel if ``version`` is not a release's.
    """
    if release.version or parts(version) is None:
        return release
    return dataclasses.replace(release, version=version)


def oldest(versions: Iterable[str]) -> str:
    """The oldest of some versions; an unknown version counts as newer. Empty: there are none."""
    return min(versions, key=lambda version: parts(version) or (_FINAL,), default="")
