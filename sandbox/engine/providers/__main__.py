"""``python -m sandbox.engine.providers NAME ENGINE``: a plugin as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time

from sandbox.engine.providers.serve import start

_LOOK_SECONDS = 0.1


def main(name: str, engine: str) -> None:
    """Serve a plugin until the engine that started this process ends.

    Args:
        name: Such as ``hcloud``.
        engine: Address of the engine.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the engine ends its plugins by it, also in the background
    parent = os.getppid()
    _server, port = start(name, engine)
    print(port, flush=True)
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[-1])
