"""ISO images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetzner_emulator.api.catalog import Catalog


@dataclass(frozen=True)
class Iso:
    """One public ISO image."""

    id: int
    name: str
    description: str
    architecture: str = "x86"

    def wire(self) -> dict[str, Any]:
        """As the API shows it."""
        return {**vars(self), "type": "public", "deprecation": None}


_ISOS = (
    Iso(
        8637,
        "SW_DVD9_Win_Server_STD_CORE_2022__64Bit_English_DC_STD_MLF_X22-74290.iso",
        "Windows Server 2022 English",
    ),
    Iso(
        8638,
        "SW_DVD9_Win_Server_STD_CORE_2022__64Bit_German_DC_STD_MLF_X22-74292.iso",
        "Windows Server 2022 German",
    ),
    Iso(26366, "virtio-win-0.1.271.iso", "virtio 0.1.271"),
    Iso(26367, "debian-12.11.0-amd64-netinst.iso", "Debian 12.11 (amd64/netinstall)"),
    Iso(26368, "debian-12.11.0-arm64-netinst.iso", "Debian 12.11 (arm64/netinstall)", "arm"),
)
ISOS = Catalog(
    "isos",
    "iso",
    _ISOS,
    lambda _call, entry: entry.wire(),
    filters={"architecture": lambda iso: iso.architecture},
)
ISOS.register()
