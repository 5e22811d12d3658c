"""What a first ``./dev up`` compiles: ``./dev bench toolchain [--into FOLDER] [NAME ...]``.

Builds the programs with an empty cache of Go, in the order of the names, each beside what those before it
left in that cache. CPU is user and system time of all processes of a build; it depends on the processor, the
number of packages does not. ``separate`` is what the same programs took when each had a Go module with
versions of its own: recorded on two shared cores on 2026-11-26, with Kubernetes 1.36.3. --into keeps the
programs and the cache; what is built there already is not built again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

from bench.lab.report import BenchError, command_line, exit_code, say
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import COMPONENTS, PULUMI, REGISTRY
from sandbox.kubernetes.estimate import RECORDED
from sandbox.kubernetes.go import find_go

BUILT = {one.name: one for one in (*COMPONENTS, PULUMI, REGISTRY)}
SEPARATE = {
    "hyperkube": (1160.1, 2908),
    "etcdutl": (72.6, 229),
    "containerd": (172.3, 666),
    "runc": (45.3, 100),
    "cni": (13.7, 31),
    "coredns": (222.6, 561),
    "local-path-provisioner": (253.8, 489),
    "metrics-server": (434.8, 973),
    "registry": (92.0, 290),
    "pulumi": (703.2, 1731),
}
"""CPU seconds and packages of a build with an empty cache."""


def cpu_seconds() -> float:
    """User and system time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(names: list[str], into: Path) -> dict[str, tuple[float, int]]:
    """CPU seconds and packages of each build, in that order.

    Args:
        names: Of components.
        into: Folder for the programs and Go's cache.
    """
    os.environ["GOCACHE"] = str(into / "go-build")
    go, found = find_go(into, say), {}
    for name in names:
        component = BUILT[name]
        if (into / "toolchain" / component.key).is_dir():
            say(f"{name} is built already")
            continue
        before = cpu_seconds()
        packages = toolchain.build(component, go, into / "toolchain", f"building {name}", say)
        found[name] = (cpu_seconds() - before, packages)
    return found


def table(found: dict[str, tuple[float, int]]) -> list[str]:
    """The measured builds beside those of separate modules, and the share that each bound is about."""
    lines = [f"{'':24}{'CPU s':>8}{'separate':>10}{'share':>8}{'packages':>10}{'separate':>10}{'share':>8}"]

    def line(what: str, names: list[str]) -> float:
        ours = [sum(found[name][column] for name in names) for column in (0, 1)]
        peer = [sum(SEPARATE.get(name, (0, 0))[column] for name in names) for column in (0, 1)]
        share = [100 * one / other if other else 0 for one, other in zip(ours, peer, strict=True)]
        cells = f"{what:24}{ours[0]:8.1f}{peer[0]:10.1f}{share[0]:7.0f}%"
        lines.append(f"{cells}{ours[1]:10}{peer[1]:10}{share[1]:7.0f}%")
        return share[0]

    for name in found:
        line(name, [name])
    line("all", list(found))
    line("all without pulumi", [name for name in found if name != PULUMI.name])
    return lines


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"in this order: {', '.join(BUILT)}")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="keep programs and cache here")
    return parser


if __name__ == "__main__":
    arguments = options().parse_args()

    def compare() -> bool:
        """Build and print."""
        if unknown := set(arguments.names) - set(BUILT):
            raise BenchError(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(BUILT)}")
        with tempfile.TemporaryDirectory() as folder:
            found = measure(arguments.names or list(BUILT), (arguments.into or Path(folder)).resolve())
        if arguments.record:
            rows = ",\n".join(f' "{name}": {json.dumps(figures)}' for name, figures in found.items())
            RECORDED.write_text(f"{{\n{rows}\n}}\n")
        print(json.dumps(found) if arguments.json else "\n".join(table(found)))
        return True

    sys.exit(exit_code(compare))
