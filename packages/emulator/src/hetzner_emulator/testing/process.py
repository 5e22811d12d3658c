"""The process behind the fixture: the emulated API in memory, until whoever started it ends."""

from __future__ import annotations

import asyncio
import json

from hetzner_emulator import standalone
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.testing import parent

_OPERATOR = "operator"
"""The project of the token that makes admin calls; tests have others."""


def main() -> None:
    """Read ``{"token"}``, a line of JSON, from stdin; print ``{"port"}``; end when stdin does."""
    pipe = parent.own_stdin()
    token = json.loads(parent.read_line(pipe))["token"]
    parent.end_with(pipe)
    config = CloudConfig(tokens={token: _OPERATOR}, public_ipv4=standalone.PUBLIC_IPV4)

    def told(port: int) -> None:
        print(json.dumps({"port": port}), flush=True)

    asyncio.run(standalone.serve(config, 0, asyncio.Event(), told))


if __name__ == "__main__":
    main()
