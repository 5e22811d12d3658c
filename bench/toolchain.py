"""Programs that the first ``./dev up`` compiles: ``./dev bench toolchain [--into FOLDER] [NAME ...]``.

Builds the programs in the order of their names. The Go cache is empty at first, and later programs use the
packages that earlier programs compiled. CPU is user and system time of all processes of a build, and
depends on the processor. The number of packages doesn't depend on the processor.

--into keeps the programs and the cache in a folder. Programs that are already in the folder aren't built
again.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.lab.processes import children_cpu_seconds
from bench.lab.report import BenchError, command_line, exit_code, say
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import COMPONENTS, PULUMI, REGISTRY
from sandbox.kubernetes.estimate import RECORDED
from sandbox.kubernetes.go import find_go

BUILT = {one.name: one for one in (*COMPONENTS, PULUMI, REGISTRY)}


def measure(names: list[str], into: Path) -> dict[str, tuple[float, int]]:
    """CPU seconds and packages of each build, in that order."""
    os.environ["GOCACHE"] = str(into / "go-build")
    go, found = find_go(into, say), {}
    for name in names:
        component = BUILT[name]
        if (into / "toolchain" / component.key).is_dir():
            say(f"{name} is built already")
            continue
        before = children_cpu_seconds()
        packages = toolchain.build(component, go, into / "toolchain", f"building {name}", say)
        found[name] = (children_cpu_seconds() - before, packages)
    return found


def table(found: dict[str, tuple[float, int]]) -> str:
    """The builds, and their sum."""
    every = {**found, "all": tuple(map(sum, zip(*found.values(), strict=True))) or (0, 0)}
    head = f"{'':24}{'CPU s':>8}{'packages':>10}"
    return "\n".join(
        [head, *(f"{name:24}{cpu:8.1f}{packages:10}" for name, (cpu, packages) in every.items())]
    )


def options() -> argparse.ArgumentParser:
    parser = command_line(__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"the programs, in this order: {', '.join(BUILT)}"
    )
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="keep the programs and the cache in this folder"
    )
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
        print(json.dumps(found) if arguments.json else table(found))
        return True

    sys.exit(exit_code(compare))
