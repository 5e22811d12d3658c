"""Which servers this host can have, decided in one place: Linux machines, or records with hollow nodes.

``./dev up``, ``setup``, ``test``, ``serve`` and ``doctor`` ask here. The check of the kernel
needs no package, so the choice treats packages that ``./dev up`` can still install as installed.
"""

import os
import platform
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetzner_machines import probe
from sandbox import daemon, packages
from sandbox.environment import HOLLOW, MACHINES, STACKS, kinds_there
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.kubernetes import estimate, releases, toolchain
from sandbox.kubernetes.components import COMPONENTS, CONTROL_PLANE, REGISTRY, Component
from sandbox.packages import Package
from sandbox.site import Clone

AUTO = "auto"
TOOLCHAINS: Mapping[str, tuple[Component, ...]] = {MACHINES: COMPONENTS, HOLLOW: CONTROL_PLANE}
"""The components for each kind of server. Hollow nodes run no containers and need only the control plane."""

_LINUX_ELSEWHERE = (
    "servers need a Linux kernel, but this host runs {system}. On this host, you can run only the emulated "
    "API ('./dev serve --backend records') and the Pulumi program for Hetzner Cloud ('pulumi up -s "
    "hetzner'). For the whole environment, run './dev up' as root in a virtual machine with Debian or Ubuntu"
)
_REMEDIES = {
    "root": "the backend 'machines' requires root; run: sudo ./dev up",
    "wsl": "in WSL2, run ./dev as root, and keep the clone in the Linux file system: in ~, not in /mnt",
    "packages": "for machines: {command}",
}


@dataclass(frozen=True)
class Host:
    """What is known of the host."""

    system: str  # its operating system, as ``uname`` names it
    release: str = ""  # of its kernel; WSL2's says ``microsoft``
    root: bool = True  # whether we are root
    installable: bool = True  # whether we may install packages
    obstacle: str | None = None  # why its kernel can't run machines; None when it can
    # The packages that each kind of servers lacks.
    missing: Mapping[str, tuple[Package, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """What servers are here."""

    kind: str  # ``machines`` or ``hollow``
    packages: tuple[Package, ...] = ()  # to be installed first
    reason: str = ""  # why it is not machines, and what to do about it; empty where it is, or was asked for
    kubernetes: str = field(default_factory=releases.default)  # the version of Kubernetes that is asked for

    @property
    def build_time(self) -> str:
        """How long its toolchains take the first time."""
        return estimate.first_time({one for built in self.toolchains for one in built})

    @property
    def toolchains(self) -> tuple[tuple[Component, ...], ...]:
        """The toolchains that are built for the choice.

        The last one has the requested Kubernetes. With machines, the machine image contains the first one;
        the registry runs on the host.
        """
        own = releases.control_plane(self.kubernetes)
        return (TOOLCHAINS[MACHINES], (REGISTRY,), own) if self.kind == MACHINES else (own,)


def look(
    clone: Clone, needs: Collection[str] = (), found: Callable[[str], bool] = packages.on_this_host
) -> Host:
    """Look at this host; changes nothing."""
    system = platform.system()
    if system != "Linux":
        return Host(system)
    return Host(
        system,
        platform.release(),
        root=os.geteuid() == 0,
        installable=packages.installable(),
        obstacle=probe.available(clone.state),
        missing={
            kind: packages.missing({kind, *needs, *_builds(clone.cache, kind)}, found) for kind in TOOLCHAINS
        },
    )


def _builds(cache: Path, kind: str) -> list[str]:
    """The need for a C compiler, if a component with C is still to be compiled; else nothing."""
    unbuilt = toolchain.unbuilt(cache, TOOLCHAINS[kind])
    return [packages.BUILD] if any(component.needs_gcc for component in unbuilt) else []


def decide(wanted: str, host: Host) -> Choice:
    """Which kind of servers there will be, and which packages come first."""
    if host.system != "Linux":
        name = {"Darwin": "macOS"}.get(host.system, host.system or "no known system")
        raise MissingRequirement(_LINUX_ELSEWHERE.format(system=name))
    reason = _against_machines(host)
    if wanted == MACHINES and reason:
        raise MissingRequirement(f"machines can't run here: {reason}")
    kind = HOLLOW if wanted == HOLLOW or reason else MACHINES
    return Choice(kind, tuple(host.missing.get(kind, ())), "" if wanted == HOLLOW else reason)


def present(clone: Clone) -> str | None:
    """The kind of servers that this clone has already; it stays until ``./dev down``."""
    running = daemon.find(clone)
    if running and running.backend in STACKS:
        return running.backend
    return next(iter(kinds_there(clone)), None)


def _against_machines(host: Host) -> str:
    """Why machines can't be here, with what to do; empty when they can."""
    absent = host.missing.get(MACHINES, ())
    if host.obstacle is None and (host.installable or not absent):
        return ""
    remedies = []
    if host.obstacle is None:
        reason = f"packages are missing: {', '.join(package.name for package in absent)}"
        remedies.append(_REMEDIES["packages"].format(command=packages.install_command(absent)))
    else:
        reason = host.obstacle
        if not host.root:
            remedies.append(_REMEDIES["root"])
    if "microsoft" in host.release.lower():
        remedies.append(_REMEDIES["wsl"])
    return "; ".join([reason, *remedies])


def refuse_internet(kind: str, internet: bool) -> None:  # noqa: FBT001 - as it was asked for
    """Refuse ``--internet`` without machines."""
    if internet and kind != MACHINES:
        raise SandboxError(
            "--internet: requires machines, but here, servers exist only as API records. Omit --internet"
        )
