"""Names of everything that a site makes on the host; objects with these names may be removed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

NAMESPACES = Path("/run/netns")

ANY_SITE = re.compile(r"ccmfs-[0-9a-f]{6}")
"""Tables of all sites."""

LONGEST_HOST_NAME = 64
"""The maximum length of a host name in Linux, in bytes. The name of a server can be longer."""

Kind = Literal["net", "srv", "lb"]


def host_name(server: str) -> str:
    """The first host name of a server: one that is too long for Linux is cut at its first dot.

    systemd does the same with long names from a network (``shorten_overlong``). Valid names have 63
    characters at most before each dot.
    """
    return server if len(server) <= LONGEST_HOST_NAME else server.partition(".")[0][:LONGEST_HOST_NAME]


@dataclass(frozen=True)
class Names:
    """The names of one site."""

    site: str  # the site's id, six hexadecimal digits

    @property
    def prefix(self) -> str:
        """Prefix of every namespace of the site."""
        return f"ccmfs-{self.site}-"

    @property
    def router(self) -> str:
        """The namespace with the routes of public addresses."""
        return f"{self.prefix}router"

    def network(self, network_id: int) -> str:
        """The namespace of a private network."""
        return f"{self.prefix}net-{network_id}"

    def server(self, server_id: int) -> str:
        """The namespace of a server."""
        return f"{self.prefix}srv-{server_id}"

    def load_balancer(self, load_balancer_id: int) -> str:
        """The namespace of a load balancer."""
        return f"{self.prefix}lb-{load_balancer_id}"

    @property
    def host_link(self) -> str:
        """The network interface in the host's own namespace; at most 15 characters."""
        return f"cfs{self.site}"

    @property
    def firewalls(self) -> str:
        """The table of nftables in the router."""
        return f"ccmfs_{self.site}"

    @property
    def table(self) -> str:
        """The nftables table (family inet) in the host's own namespace, for the way to the Internet."""
        return f"ccmfs-{self.site}"

    @property
    def sockets(self) -> Path:
        """The folder for sockets; their paths may have 107 characters at most, so it is not in the clone."""
        return Path("/run") / f"ccmfs-{self.site}"

    @property
    def cgroup(self) -> str:
        """The folder in every cgroup hierarchy."""
        return f"ccmfs-{self.site}"

    def parse(self, namespace: str) -> tuple[Kind, int] | None:
        """Kind and id of a namespace of this site; None for the router and for others."""
        match = re.fullmatch(re.escape(self.prefix) + r"(net|srv|lb)-(\d+)", namespace)
        return (match[1], int(match[2])) if match else None  # type: ignore[return-value]
