"""Debian's own Hetzner datasource; only the strings of the firmware come from files: namespaces have none."""
# ruff: noqa: N999, N813 -- cloud-init finds a datasource by exactly this file name

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloudinit import sources
from cloudinit.sources import DataSourceHetzner as debian


def _firmware(name: str) -> str | None:
    """One of sys_vendor and product_serial; None where the machine was not made by the sandbox."""
    try:
        return Path("/run/ccmfs", name).read_text().strip()
    except FileNotFoundError:
        return None


def _hetzner() -> tuple[bool, str | None]:
    """Whether this is a Hetzner server, and its id: the interface of cloud-init's module."""
    return _firmware("sys_vendor") == "Hetzner", _firmware("product_serial")


debian.get_hcloud_data = _hetzner


class DataSourceHetzner(debian.DataSourceHetzner):
    """The class name is what ``datasource_list`` asks for."""

    def check_instance_id(self, sys_cfg: Any) -> bool:  # noqa: ARG002
        """Whether a cached instance is this one; after a reboot it is, and nothing runs twice."""
        return str(self.get_instance_id()) == _firmware("product_serial")


def get_datasource_list(depends: Any) -> list[type]:
    """The interface by which cloud-init finds a datasource."""
    return sources.list_from_depends(depends, [(DataSourceHetzner, (sources.DEP_FILESYSTEM,))])
