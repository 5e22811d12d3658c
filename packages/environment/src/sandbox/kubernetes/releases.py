"""Which versions of Kubernetes there are here, and how people and programs name them."""

import re
from collections.abc import Iterable
from functools import cache

from sandbox.errors import SandboxError
from sandbox.kubernetes.components import KUBERNETES, Component

K3S_SUFFIX = "+k3s1"
NEWEST_CHANNELS = ("stable", "latest", "testing")
"""k3s channels without a minor version in their name. For them, the sandbox uses its default version."""

_NAME = re.compile(r"v?(\d+\.\d+)(\.\d+)?")


@cache
def versions() -> tuple[str, ...]:
    """Kubernetes' versions without the leading v, such as ``1.37.2``; the default first."""
    return tuple(component.version for component in KUBERNETES)


def default() -> str:
    """The version that is meant where none is named."""
    return versions()[0]


def control_plane(version: str) -> tuple[Component, ...]:
    """What a control plane on loopback of one of :func:`versions` runs, and kubectl."""
    return (KUBERNETES[versions().index(version)],)


def k3s_name(version: str) -> str:
    """How k3s names its release of a version: ``v1.37.2+k3s1``."""
    return f"v{version}{K3S_SUFFIX}"


def named(text: str, where: str) -> str:
    """The version for a text such as ``1.35``, ``1.35.8`` or ``v1.35.8`` in an option."""
    if version := _find(text):
        return version
    raise _unknown(where, text, ascending())


def of_k3s(name: str, where: str) -> str:
    """The version for a release of k3s, such as ``v1.35.8+k3s1``, in a setting."""
    for version in versions():
        if name == k3s_name(version):
            return version
    raise _unknown(where, name, map(k3s_name, ascending()))


def of_channel(channel: str, where: str) -> str:
    """The version of a channel of k3s; an empty one means ``stable``, as for k3s's installer."""
    if channel in {"", *NEWEST_CHANNELS}:
        return default()
    if version := _find(channel):
        return version
    minors = (f"v{version.rpartition('.')[0]}" for version in ascending())
    raise _unknown(where, channel, (*NEWEST_CHANNELS, *minors))


def _find(text: str) -> str | None:
    found = _NAME.fullmatch(text)
    for version in versions():
        if found and version == found[1] + (found[2] or "." + version.rpartition(".")[2]):
            return version
    return None


def _unknown(where: str, value: str, allowed: Iterable[str]) -> SandboxError:
    return SandboxError(
        f"{where} {value}: the sandbox doesn't have this version; allowed: {', '.join(allowed)}"
    )


def ascending() -> list[str]:
    """All :func:`versions`, the oldest first."""
    return sorted(versions(), key=lambda version: [*map(int, version.split("."))])
