"""Finds the private network, and makes sure that we stand in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import aiohttp

from ccm.cloud.errors import CloudUnavailable
from ccm.errors import ConfigurationError
from ccm.hetzner.api import HetznerApi, Priority
from ccm.hetzner.api.errors import NotFound
from ccm.hetzner.api.wire import Network

METADATA = "http://169.254.169.254/hetzner/v1/metadata"
_NETWORK_ID = re.compile(r"network_id:\s*(\d+)")


async def find_network(api: HetznerApi, name_or_id: str) -> Network:
    """Find a network by id or by name.

    Raises:
        ConfigurationError: There is none.
        ApiError: Not known.
    """
    if name_or_id.isascii() and name_or_id.isdigit():
        try:
            return await api.get(f"/networks/{name_or_id}", "network", Network, priority=Priority.NODES)
        except NotFound:
            pass  # a name may be a number too
    found = await api.list(
        "/networks", "networks", Network, params={"name": name_or_id}, priority=Priority.NODES
    )
    if not found.items:
        problem = f"HCLOUD_NETWORK: the token's project has no network with name or id {name_or_id!r}"
        raise ConfigurationError([problem])
    return found.items[0]


async def read_attached_networks() -> str:
    """Ask the metadata service in which networks the server is that we run on.

    Raises:
        CloudUnavailable: This is no Hetzner server, or the service does not answer.
    """
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{METADATA}/private-networks") as answer,
        ):
            answer.raise_for_status()
            return await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CloudUnavailable(f"the metadata service does not answer: {type(error).__name__}") from error


async def check_attached(network: Network, read: Callable[[], Awaitable[str]]) -> None:
    """Make sure that the server which we run on is in the network.

    Raises:
        ConfigurationError: It is not, or that could not be found out.
    """
    advice = "attach it, or set HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true"
    try:
        attached = await read()
    except CloudUnavailable as error:
        problem = f"HCLOUD_NETWORK: can't tell whether this machine is in network {network.name!r} ({error})"
        raise ConfigurationError([f"{problem}; {advice}"]) from error
    if network.id not in {int(number) for number in _NETWORK_ID.findall(attached)}:
        problem = f"HCLOUD_NETWORK: this machine is not in network {network.name!r} ({network.id})"
        raise ConfigurationError([f"{problem}; {advice}"])
