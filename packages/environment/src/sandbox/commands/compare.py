"""``./dev compare``: two tiny clusters, one with a CCM and one without, side by side."""

import argparse
import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from rich.box import ROUNDED
from rich.console import Console
from rich.table import Table

from sandbox import packages
from sandbox.backend_choice import decide, look
from sandbox.comparison.stage import compare
from sandbox.comparison.table import Row, rows
from sandbox.console import Steps
from sandbox.environment import HOLLOW
from sandbox.exit_codes import ending_signals
from sandbox.kubernetes import estimate, toolchain
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.site import Clone

HELP = "compare a cluster that has a CCM with a cluster that has none (about one minute)"
WITHOUT_ADDRESSES = True
WHAT_RAN = (
    "Each cluster had simulated Nodes, and a real control plane that listened on loopback. Both clusters are "
    "deleted now. Simulated Nodes run no containers, so the load balancer's address didn't respond. To "
    "create a cluster whose load balancer responds, run './dev up'."
)
T = TypeVar("T")


def run(clone: Clone, _arguments: argparse.Namespace) -> int:
    """Run the experiment and print what a person sees."""
    console = Console()
    steps = Steps(console)
    packages.ensure(decide(HOLLOW, look(clone)).packages, steps.note)
    first = f"Kubernetes toolchain (first build: {estimate.first_time(CONTROL_PLANE)})"
    with steps.step(first, "Kubernetes toolchain") as progress:
        built = toolchain.ensure(clone.cache, progress, CONTROL_PLANE)
    with tempfile.TemporaryDirectory(dir=clone.state, prefix=".compare-") as folder:
        with steps.step("Two clusters for one minute") as progress:
            seen = asyncio.run(interruptible(compare(built, clone.root, Path(folder), progress)))
        console.print(table(rows(*seen)))
    steps.note(WHAT_RAN)
    return 0


def table(found: list[Row]) -> Table:
    """The rows for a terminal."""
    shown = Table(
        box=ROUNDED, show_lines=True, title="The same Service and Pod in two clusters", title_justify="left"
    )
    shown.add_column("", style="bold")
    shown.add_column("without a CCM", style="yellow", overflow="fold")
    shown.add_column("with ccm-from-scratch", style="green", overflow="fold")
    for row in found:
        shown.add_row(*row)
    return shown


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Let all ending signals end the work in order; asyncio only does so for Ctrl-C."""
    task, received = asyncio.ensure_future(work), list[int]()

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise KeyboardInterrupt from None
    except ExceptionGroup as failures:
        raise _first(failures) from failures


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """The first failure in nested groups; because of it, all other tasks were ended."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
