"""A gateway of one's own, in place of the NAT server: how one gets through it by SSH."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lib.errors import GatewayKeyError
from ..lib.files import ROOT

ALLOWED = (
    "give ssh, its address or name, hostKey, a line of ssh-keyscan without the name, keyFile, the path of a "
    "private key without passphrase that it accepts, and if need be user, which is root, such as by: "
    "pulumi config set --path gateway.ssh 198.51.100.7"
)
_PATTERNS = {
    "ssh": r"[A-Za-z0-9.:-]{1,253}",
    "hostKey": r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/=]{16,2048}",
    "keyFile": r"[^\n]{1,4096}",
    "user": r"[a-z_][a-z0-9_-]{0,31}",
}
_NEEDED = {"ssh", "hostKey", "keyFile"}


@dataclass(frozen=True)
class OwnGateway:
    """Where it is; without an address there is none.

    Attributes:
        address: Of its SSH.
        host_key: It has to have.
        key_file: Path of the key that opens it, from the program's folder.
        user: Who may forward there.
    """

    address: str = ""
    host_key: str = ""
    key_file: str = ""
    user: str = "root"

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self.address)

    def way(self) -> dict[str, str]:
        """The way to it, as infra/servers/server.py has ways; the key stays in its file."""
        return {
            "address": self.address,
            "host_key": self.host_key,
            "key_file": self.key_file,
            "user": self.user,
        }


def read_gateway(given: Mapping[str, Any]) -> OwnGateway:
    """Reads the setting.

    Args:
        given: As the stack has it; empty: there is none.

    Raises:
        ValueError: It is wrong, or there is no key in the file.
    """
    if not given:
        return OwnGateway()
    if given.keys() - _PATTERNS.keys() or _NEEDED - given.keys():
        raise ValueError
    if not all(re.fullmatch(_PATTERNS[name], str(value), re.ASCII) for name, value in given.items()):
        raise ValueError
    try:
        read_key(given["keyFile"])
    except GatewayKeyError as error:
        raise ValueError(str(error)) from error
    return OwnGateway(given["ssh"], given["hostKey"], given["keyFile"], given.get("user", "root"))


def read_key(path: str) -> str:
    """The private key in a file.

    Args:
        path: From the program's folder, or absolute, or beginning with ``~``.

    Raises:
        GatewayKeyError: There is none that could be used.
    """
    import asyncssh  # noqa: PLC0415 (half a second that the program need not spend without a gateway)

    try:
        text = (ROOT / Path(path).expanduser()).read_text(encoding="utf-8")
        asyncssh.import_private_key(text)
    except (OSError, ValueError, RuntimeError) as error:
        raise GatewayKeyError(path, str(error)) from error
    return text
