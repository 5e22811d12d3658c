"""Public IPv6 addresses of a site: their range, and whether the host can have a route to it.

The range follows from the site's id, so two sites on a host never share one, and no claim is needed.
"""

from ipaddress import IPv6Network
from pathlib import Path

DOCUMENTATION = IPv6Network("3fff::/20")
"""The IPv6 range for documentation (RFC 9637). Routers on the Internet don't route this range."""

KERNEL = Path("/proc/sys/net/ipv6")
_PREFIX = 44  # the 20 bits above and the 24 of a site's id; leaves a million /64 networks


def of_site(site: str) -> IPv6Network:
    """The range of a site's /64 networks; the first one is for the link between host and router."""
    return IPv6Network((int(DOCUMENTATION.network_address) | int(site, 16) << (128 - _PREFIX), _PREFIX))


def obstacle(link: str, kernel: Path = KERNEL) -> str | None:
    """Why the host can't have a route to IPv6 addresses of machines; None if it can.

    Machines have IPv6 among themselves if the kernel has it: namespaces don't inherit the host's settings.
    """
    if not kernel.is_dir():
        return "its kernel has no IPv6"
    for name in ("all", "default", link):
        setting = kernel / "conf" / name / "disable_ipv6"
        if setting.exists() and setting.read_text().strip() != "0":
            return f"IPv6 is disabled (net.ipv6.conf.{name}.disable_ipv6)"
    return None
