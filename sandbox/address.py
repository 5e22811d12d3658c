"""Where the emulated API answers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class Address:
    """Where the API answers on this machine, and with which token.

    Attributes:
        port: On 127.0.0.1.
        token: Of a project; it makes admin calls, too.
    """

    port: int
    token: str

    @property
    def endpoint(self) -> str:
        """What goes into ``HCLOUD_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def console(self) -> str:
        """The address of the cloud's console for a person; no server and no log sees what is behind the #."""
        return f"http://127.0.0.1:{self.port}/_sandbox/console#token={quote(self.token, safe='')}"
