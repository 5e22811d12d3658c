"""Differences between k3s on a server and what the program installed there."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.k3s import DATASTORE, ENCRYPTION
from ..servers.probe import AGENT_UNIT, K3S, SERVER_UNIT, Report, digest, file_differences, is_running

API_SILENT = "its Kubernetes API doesn't respond"
"""This difference may have its cause on other servers: if etcd has no quorum, no API server responds. Every
other difference has its cause on the server itself."""
_JOINS = ("--server=", "--cluster-init")
"""Flags that k3s ignores if the server already has etcd data."""


def installation_drift(
    unit: str, flags: Sequence[str], environment: Mapping[str, str], report: Report
) -> list[str]:
    """What differs of k3s's program, unit and environment, for a person."""
    has = report.commands.get(unit)
    if has is None or K3S not in report.files:
        return [f"{unit} is not installed"]
    found: list[str] = []
    wanted = _comparable(flags)
    if changed := sorted(wanted ^ _comparable(has[1:])):
        names = sorted({flag.partition("=")[0] for flag in changed})
        found.append(f"the flags of {unit} differ from the flags that this program set: {', '.join(names)}")
    of_unit = report.environment.get(unit, {})
    for name, value in environment.items():
        known = value if name == "K3S_URL" else digest(value)
        if of_unit.get(name) != known:
            found.append(f"the variable {name} of {unit} differs from the value that this program set")
    state = report.unit(unit)
    if state.enabled != "enabled":
        found.append(f"{unit} must be enabled, but is {state.enabled or 'unknown'}")
    if not is_running(state):
        found.append(f"{unit} is {state.active}")
    return found


def agent_drift(
    node: str,
    flags: Sequence[str],
    environment: Mapping[str, str],
    report: Report,
    nodes: Mapping[str, Any] | None,
) -> list[str]:
    """The differences of an agent; ``nodes`` are the cluster's by name, None if unknown."""
    found = installation_drift(AGENT_UNIT, flags, environment, report)
    if not found and not report.kubelet:
        # k3s keeps asking to join, and systemd calls that starting
        found.append(f"{AGENT_UNIT} runs, but its kubelet does not run")
    return found or _absence(node, nodes)


def server_drift(
    node: str, flags: Sequence[str], environment: Mapping[str, str], files: Mapping[str, str], report: Report
) -> list[str]:
    """What differs of a control server."""
    found = installation_drift(SERVER_UNIT, flags, environment, report)
    found += file_differences({path: digest(content) for path, content in files.items()}, report)
    if any(what.startswith(ENCRYPTION) for what in found):
        # a refresh of a Secret stops the run before anything is repaired
        found.append(
            "if Pulumi can't read Secrets, find the URN of the K3sServer: run 'pulumi stack --show-urns'. To "
            "repair only k3s, run 'pulumi up --target URN'. Then repeat the command that failed"
        )
    if DATASTORE not in report.files:
        found.append(f"{DATASTORE} is gone")
    if not found and report.nodes is None:
        found.append(API_SILENT)
    return found or _absence(node, report.nodes)


def _comparable(flags: Sequence[str]) -> set[str]:
    return {flag for flag in flags if not flag.startswith(_JOINS)}


def _absence(node: str, nodes: Mapping[str, Any] | None) -> list[str]:
    return [] if nodes is None or node in nodes else [f"{node} isn't a Node of the cluster"]
