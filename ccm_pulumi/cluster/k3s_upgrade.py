"""How k3s is upgraded: which way it may go, and how a worker's Node is drained for it."""

import asyncio
import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..config import k3s
from ..lib.errors import InfraError, Problem, RemoteCommandError, UpgradeError, VersionError
from ..lib.ssh import Host, connect, connect_first, read_object, run_once
from . import k3s_scripts
from .drain import UPGRADING, Traffic, empty
from .k3s_versions import OLDEST_KUBELET, changes_minor, left_behind, oldest, parts, why_not
from .ready_nodes import read_nodes

_AT_ONCE = 30.0
_CONNECT_SECONDS = 30.0
_RELEASE_SECONDS = 420.0
"""Total timeout for the request to the channel server and for all attempts to download the installer."""
_INSTALLED = re.compile(rf"^{k3s_scripts.INSTALLED}(\S+)$", re.MULTILINE)
_LEADS = re.compile(rf"^{k3s_scripts.LEADS}(\S+)$", re.MULTILINE)


def release_of(props: Mapping[str, Any]) -> k3s.Release:
    """The release that the properties of a k3s resource name."""
    return k3s.Release(*(props.get(name) or "" for name in ("install_url", "channel", "version")))


def installed_in(output: str) -> str:
    """The version that an installation script printed; empty if it printed none."""
    versions = _INSTALLED.findall(output)
    return versions[-1] if versions else ""


async def ask_release(host: Host, release: k3s.Release) -> tuple[str, str]:
    """The version of k3s that a server has (empty: none), and the one that a release's channel leads to
    (empty: no channel is followed, or the installer must run before that version is known).
    """
    said = await _ask_version(host, k3s_scripts.print_release(release), _RELEASE_SECONDS)
    led = _LEADS.findall(said)
    return installed_in(said), led[-1] if led and parts(led[-1]) else ""


async def oldest_on(controls: Sequence[Host]) -> str:
    """The oldest k3s of the control servers that can be asked; empty if none of these has one. If none can be
    asked, raises the error of the last one.
    """
    asked = (_ask_version(host, k3s_scripts.print_version(), _AT_ONCE) for host in controls)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    versions = [installed_in(answer) for answer in answers if isinstance(answer, str)]
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    unexpected = [error for error in failed if not isinstance(error, InfraError)]
    if unexpected or not versions:
        raise (unexpected or failed)[-1]
    return oldest(version for version in versions if version)


async def _ask_version(host: Host, script: str, timeout: float) -> str:
    what = "reading the version of k3s"
    return await run_once([host], script, what=what, timeout=timeout, within=_CONNECT_SECONDS)


def refuse(
    installed: str, release: k3s.Release, leads: str = "", *, restores: bool = False, done: bool = False
) -> None:
    """Refuses an unsupported upgrade or downgrade of k3s. ``leads`` is the version that the release's channel
    leads to or, if ``done``, has led to; empty: unknown.
    """
    why = "" if done else why_not(installed, release, restores=restores)
    if not why and (why := why_not(installed, k3s.Release("", "", leads))):
        why = f"this setting {'resulted' if done else 'results'} in the version {leads}, but {why}"
    if why:
        raise VersionError(_problem(release, why), done=done)


async def refuse_to_leave_behind(host: Host, installed: str, release: k3s.Release, leads: str = "") -> None:
    """Refuses an upgrade after which kubelets would be older than Kubernetes supports. The program upgrades
    its own workers after the control servers, but not the cluster-autoscaler's. If the minor version stays,
    this asks nothing.
    """
    kubelets: dict[str, str] = {}
    if changes_minor(installed, release, leads):
        async with connect(host, timeout=_CONNECT_SECONDS) as shell:
            # where its API does not answer, the installation may be what mends it
            with contextlib.suppress(RemoteCommandError):
                kubelets = {name: node.version for name, node in (await read_nodes(shell)).items()}
    if behind := left_behind(kubelets, installed, release, leads):
        named = ", ".join(f"{node} ({kubelets[node]})" for node in behind)
        why = (
            f"these kubelets would be more than {OLDEST_KUBELET} minor versions older than the API server: "
            f"{named}. If the cluster-autoscaler manages a node's pool, replace the node's server: kubectl "
            "drain NODE, then hcloud server delete NODE. For nodes in other pools, restore the previous "
            "value of this setting, and run pulumi up to upgrade the kubelets. Then change the setting again"
        )
        raise VersionError(_problem(release, why))


def _problem(release: k3s.Release, why: str) -> Problem:
    name, value = ("k3sVersion", release.version) if release.version else ("k3sChannel", release.channel)
    return Problem(f"ccm-from-scratch:{name}", value, why)


async def drain_for_upgrade(controls: Sequence[Host], node: str, seconds: int, traffic: Traffic) -> None:
    """Cordons a Node and drains it. A Node that its owner has cordoned stays cordoned after the upgrade."""
    try:
        async with connect_first(controls, timeout=_CONNECT_SECONDS) as shell:
            # the annotation lets the Node accept Pods again, unless its owner has cordoned it before
            what, name = f"draining the node {node}", shlex.quote(node)
            found = await read_object(shell, "node", node, what=what)
            if found and not found["spec"].get("unschedulable"):
                await shell.run(f"k3s kubectl annotate node {name} {UPGRADING}=", what=what, timeout=_AT_ONCE)
            await empty(shell, node, seconds, traffic, print)
    except InfraError as error:
        raise UpgradeError(node, error) from error
