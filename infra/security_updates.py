"""Security updates of a server's operating system: unattended-upgrades of Debian and Ubuntu installs them.

It never reboots a server: kured does, when and how the settings say (infra/kured.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pulumi.dynamic import CreateResult

from .dynamic import ProviderResource
from .probe import PROBES, ServerProvider, differences, drift_of
from .remote import Host, connect
from .server import host_of

_SECONDS = 300.0  # with a package to install
_FILE = "/etc/apt/apt.conf.d/99-ccm-from-scratch"
"""The later one by its name counts (apt.conf(5)); those of the distribution begin with 20 and 50."""


def script() -> str:
    """For ``sh``: switches the updates on; which those are the distribution says. It may run again."""
    return f"""set -eu
command -v apt-get >/dev/null || {{
  echo 'osUpgrades is for Debian and Ubuntu: there is no apt-get' >&2
  exit 1
}}
[ -e /usr/bin/unattended-upgrade ] || {{
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq -o DPkg::Lock::Timeout=120 update
  apt-get -qq -o DPkg::Lock::Timeout=120 install -y unattended-upgrades
}} >&2
cat > {_FILE}.new <<'END'
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "1";
Unattended-Upgrade::Automatic-Reboot "false";
END
mv {_FILE}.new {_FILE}
"""


class SecurityUpdatesProvider(ServerProvider):
    """Switches a server's security updates on. Deleting it is nothing: they go on, and nothing reboots."""

    replaced_by = ("server_id",)
    unheeded = ("private_key", "host_key", "address", "jump")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when they are on.

        Raises:
            InfraError: The server could not be reached, or has no such updates.
        """
        asyncio.run(_switch_on(host_of(props)))
        return CreateResult(props["server_id"], dict(props))

    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """Compares the settings of the updates."""
        return drift_of(PROBES.of([host_of(props)])[0], lambda report: differences(script(), report))


class SecurityUpdates(ProviderResource, provider=SecurityUpdatesProvider):
    """Security updates on a server."""


async def _switch_on(host: Host) -> None:
    async with connect(host) as shell:
        await shell.run(script(), what="switching security updates on", timeout=_SECONDS)
