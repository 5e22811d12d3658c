"""Runs the SDK's server of dynamic providers until the engine ends: then our stdin ends, too."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from pathlib import Path


def _end_with_engine(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass
    os._exit(1)


def main() -> None:
    """Watch stdin in a thread and become `python -m pulumi.dynamic`."""
    watched = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    threading.Thread(target=_end_with_engine, args=(watched,), daemon=True).start()
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["pulumi.dynamic"]
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
