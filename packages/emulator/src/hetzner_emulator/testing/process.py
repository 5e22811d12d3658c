"""The process behind the fixture: the emulated API in memory, until the process that started it ends."""

import asyncio
import json
import os
import sys
import threading

from hetzner_emulator import standalone
from hetzner_emulator.config import CloudConfig

_OPERATOR = "operator"
"""The token for admin requests belongs to this project. The tokens of the tests belong to other projects."""


def main() -> None:
    """Read ``{"token"}``, a line of JSON, from stdin; print ``{"port"}``; end when stdin does."""
    token = json.loads(sys.stdin.buffer.readline())["token"]
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    config = CloudConfig(tokens={token: _OPERATOR}, public_ipv4=standalone.PUBLIC_IPV4)

    def serving(port: int) -> None:
        print(json.dumps({"port": port}), flush=True)

    asyncio.run(standalone.serve(config, 0, asyncio.Event(), serving))


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
