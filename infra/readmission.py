"""How a Node takes Pods and traffic again that was drained for an upgrade."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from .drain import BY_US, EXCLUDED, UPGRADING
from .objects import read_object
from .remote import Shell

_AT_ONCE = 30.0


def readmission(node: str, labels: Mapping[str, str], marks: Collection[str]) -> list[str]:
    """Commands that let a Node take Pods and traffic again after its upgrade; what its owner did stays. Pure.

    Args:
        node: Its name.
        labels: Its labels.
        marks: Keys of its annotations.
    """
    name = shlex.quote(node)
    commands = [f"k3s kubectl uncordon {name}"] if UPGRADING in marks else []
    if labels.get(EXCLUDED) == BY_US:
        commands.append(f"k3s kubectl label node {name} {EXCLUDED}-")
    # last: who comes after an interruption in between knows by it that there is something to do
    return [*commands, *([f"k3s kubectl annotate node {name} {UPGRADING}-"] if UPGRADING in marks else [])]


async def readmit(shell: Shell, node: str) -> bool:
    """Lets a Node take Pods and traffic again.

    Args:
        shell: Of a control server.
        node: Its name.

    Returns:
        Whether load balancers may send to it; not to one that is gone.

    Raises:
        RemoteCommandError: The cluster could not be asked.
    """
    what = f"letting the node {node} take Pods again"
    found = await read_object(shell, "node", node, what=what)
    if found is None:
        return False
    labels = found["metadata"].get("labels", {})
    if commands := readmission(node, labels, found["metadata"].get("annotations", {})):
        await shell.run(" && ".join(commands), what=what, timeout=_AT_ONCE)
    return labels.get(EXCLUDED) in (None, BY_US)
