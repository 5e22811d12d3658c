"""Whether a kube-controller-manager is at work: without one, Services send to Pods that are gone.

Where several servers have one, the leader alone works. When it ends, as in an upgrade of its server, nobody
does until its lease is over, 15 seconds after it was last renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .objects import read_object
from .remote import Shell

POLLS = 30
PAUSE = 1.0
STARTING = timedelta(seconds=5)
"""After it has taken the lease, its controllers start and read what there is; that takes a second or two."""


def is_led(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether one is at work. Pure.

    No clock is asked: it has renewed its lease between two looks, and some time after it took it.

    Args:
        before: The lease at the first look, as the API gives it; None: there was none.
        now: At the second one. None: none leads, because there is only one.
    """
    if now is None:
        return True
    spec = now["spec"]
    taken, renewed = spec.get("acquireTime"), spec.get("renewTime")
    if not (spec.get("holderIdentity") and taken and renewed):
        return False
    moves = before is None or before["spec"].get("renewTime") != renewed
    return moves and datetime.fromisoformat(renewed) - datetime.fromisoformat(taken) >= STARTING


async def read_lease(shell: Shell, what: str) -> Mapping[str, Any] | None:
    """The lease as the API gives it; None where there is none.

    Args:
        shell: Of a control server.
        what: For what it is read, for errors.

    Raises:
        RemoteCommandError: The cluster could not be asked.
    """
    return await read_object(shell, "lease", "kube-controller-manager", namespace="kube-system", what=what)


async def await_leader(
    shell: Shell, node: str, before: Mapping[str, Any] | None, what: str, report: Callable[[str], None]
) -> None:
    """Waits until one is at work, for ``POLLS`` times ``PAUSE`` seconds.

    Args:
        shell: Of a control server.
        node: Which is drained then, for the report.
        before: The lease as it was some time ago.
        what: For what it is read, for errors.
        report: Told when none is.

    Raises:
        RemoteCommandError: The cluster could not be asked.
    """
    for _ in range(POLLS):
        if is_led(before, await read_lease(shell, what)):
            return
        await asyncio.sleep(PAUSE)
    report(f"for {POLLS * PAUSE:.0f} s no kube-controller-manager has led; {node} is drained all the same")
