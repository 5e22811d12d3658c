"""Debian's own Hetzner datasource, as far as a namespace lets it be.

The strings of the firmware come from files, and there is no DHCP: the sandbox sets all addresses before the
machine boots. The datasource waits for a metadata service that is down, because the sandbox was killed.
"""
# ruff: noqa: N999, N813 -- cloud-init finds a datasource by exactly this file name

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloudinit import sources  # pyrefly: ignore[missing-import] -- Debian's, in the machines alone
from cloudinit.sources import DataSourceHetzner as debian  # pyrefly: ignore[missing-import]


def _firmware(name: str) -> str | None:
    """One of sys_vendor and product_serial; None where the machine was not made by the sandbox."""
    try:
        return Path("/run/ccmfs", name).read_text().strip()
    except FileNotFoundError:
        return None


def _hetzner() -> tuple[bool, str | None]:
    """Whether this is a Hetzner server, and its id: the interface of cloud-init's module."""
    return _firmware("sys_vendor") == "Hetzner", _firmware("product_serial")


@contextmanager
def _network_is_there(**_: Any) -> Iterator[None]:
    """In the place of DHCP, which nothing here would answer, with the interface of cloud-init's class."""
    yield


debian.get_hcloud_data = _hetzner
debian.EphemeralDHCPv4 = _network_is_there


class DataSourceHetzner(debian.DataSourceHetzner):
    """The class name is what ``datasource_list`` asks for."""

    def check_instance_id(self, sys_cfg: Any) -> bool:  # noqa: ARG002
        """Whether a cached instance is this one; after a reboot it is, and nothing runs twice."""
        return str(self.get_instance_id()) == _firmware("product_serial")


def get_datasource_list(depends: Any) -> list[type]:
    """The interface by which cloud-init finds a datasource."""
    return sources.list_from_depends(depends, [(DataSourceHetzner, (sources.DEP_FILESYSTEM,))])
