"""The user's own gateway, in place of the NAT server, as an SSH jump host."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lib.errors import GatewayKeyError
from ..lib.files import ROOT

ALLOWED = (
    "set the keys ssh (address or name of the gateway), hostKey (a line of the output of ssh-keyscan without "
    "the host name), and keyFile (path of a private key that the gateway accepts, without a passphrase). The "
    "key 'user' is optional (default: root). Example: "
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
    """The gateway; without an address there is none. Its fields are the inputs that ``host_at`` reads."""

    address: str = ""
    host_key: str = ""
    key_file: str = ""  # path of its private key, relative to the program's folder
    user: str = "root"

    def __bool__(self) -> bool:
        """Whether it is set."""
        return bool(self.address)


def read_gateway(setting: Mapping[str, Any]) -> OwnGateway:
    """Reads the setting; a ValueError means that it is invalid, or that the file has no key."""
    if not setting:
        return OwnGateway()
    if setting.keys() - _PATTERNS.keys() or _NEEDED - setting.keys():
        raise ValueError
    if not all(re.fullmatch(_PATTERNS[name], str(value), re.ASCII) for name, value in setting.items()):
        raise ValueError
    try:
        read_key(setting["keyFile"])
    except GatewayKeyError as error:
        raise ValueError(str(error)) from error
    return OwnGateway(setting["ssh"], setting["hostKey"], setting["keyFile"], setting.get("user", "root"))


def read_key(path: str) -> str:
    """The private key in a file, whose path is absolute, relative to the program, or begins with ``~``."""
    import asyncssh  # noqa: PLC0415 (it takes half a second, and only a gateway needs it)

    try:
        text = (ROOT / Path(path).expanduser()).read_text(encoding="utf-8")
        asyncssh.import_private_key(text)
    except (OSError, ValueError, RuntimeError) as error:
        raise GatewayKeyError(path, str(error)) from error
    return text
