"""Security updates by unattended-upgrades of Debian and Ubuntu; kured.py reboots the servers."""

from collections.abc import Mapping
from typing import Any

from ..lib.dynamic import ProviderResource
from ..servers.server import ScriptProvider

_FILE = "/etc/apt/apt.conf.d/99-ccm-from-scratch"
"""apt parses its configuration files in the order of their names, and the last file takes precedence
(apt.conf(5)). The names of the distribution's files begin with 20 and 50."""


def script() -> str:
    """For ``sh``: switches on the updates that the distribution selects. It may run again."""
    return f"""set -eu
command -v apt-get >/dev/null || {{
  echo 'osUpgrades requires Debian or Ubuntu: this server has no apt-get' >&2
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


class SecurityUpdatesProvider(ScriptProvider):
    """Switches a server's security updates on. Its deletion does nothing: the updates continue."""

    ignored_inputs = ("private_key", "host_key", "address", "jump")
    what = "switching security updates on"
    seconds = 300.0

    def script(self, props: Mapping[str, Any]) -> str:
        """The same for all servers."""
        del props
        return script()


class SecurityUpdates(ProviderResource, provider=SecurityUpdatesProvider):
    """Security updates on a server."""
