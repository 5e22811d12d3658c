"""Objects of the cluster, as a control server reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from .remote import Shell

_SECONDS = 30.0


async def read_object(
    shell: Shell, kind: str, name: str, *, what: str, namespace: str = "", timeout: float = _SECONDS
) -> Mapping[str, Any] | None:
    """An object as the API gives it; None where there is none.

    Args:
        shell: Of a control server.
        kind: As kubectl has it.
        name: Its name.
        what: For what it is read, for errors.
        namespace: Of the object; empty: it is in none.
        timeout: Seconds.

    Raises:
        RemoteCommandError: The cluster could not be asked.
    """
    where = f"--namespace={namespace} " if namespace else ""
    command = f"k3s kubectl {where}get {kind} {shlex.quote(name)} --ignore-not-found -o json"
    found = await shell.run(command, what=what, timeout=timeout)
    return json.loads(found) if found.strip() else None
