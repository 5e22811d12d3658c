"""Runs the SDK's server of dynamic providers until the engine ends."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from sandbox import parent


def main() -> None:
    """Become ``python -m pulumi.dynamic``, with the program's folder as the first one to import from."""
    parent.end_with(parent.own_stdin())
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["pulumi.dynamic"]
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
