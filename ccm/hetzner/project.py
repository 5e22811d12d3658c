"""Checks that the token still belongs to the project of this cluster.

With the token of another project, the API succeeds, but returns none of our servers. The other project also
lacks our network. So if the network exists, a missing server was deleted; otherwise the token is wrong.
Without a network, a missing server counts as deleted only after we saw one of our servers with the current
token, or if the mass deletion breaker is off. Callers hold the token, so both requests use one project.
"""

import re
import time
from collections.abc import Awaitable, Callable

import aiohttp

from ccm.cloud.cloud import MASS_DELETION_BREAKER_OFF
from ccm.cloud.errors import AccessDenied, CloudUnavailable, Notice
from ccm.errors import ConfigurationError
from ccm.hetzner.api import HetznerApi, Priority
from ccm.hetzner.api.api_errors import NotFound
from ccm.hetzner.api.models import Network


class Project:
    """Checks that the API token still belongs to the cluster's project.

    Args:
        network: Returns the ID of a network that must exist, or None.
        mass_deletion_breaker: Don't treat the resources as deleted if the project has none of them.
        replaced: Called after the network is deleted; returns whether another network replaced it.
    """

    def __init__(
        self,
        api: HetznerApi,
        network: Callable[[], int | None],
        *,
        mass_deletion_breaker: bool = True,
        replaced: Callable[[], Awaitable[bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._network = network
        self._replaced = replaced
        self.mass_deletion_breaker = mass_deletion_breaker
        self._clock = clock
        self._denied_at: float | None = None
        self._seen_at = float("-inf")
        self._seen_with: int | None = None

    @property
    def network(self) -> int | None:
        """The ID of the network that must exist, or None."""
        return self._network()

    @property
    def is_proven(self) -> bool:
        """Whether we saw one of our resources with the current token."""
        return self._seen_with == self._api.token.number

    def healthy(self) -> str | None:
        """An error message, or None if the project seems to be right."""
        return None if self._denied_at is None else self._sentence()

    async def check(self, priority: Priority) -> None:
        """Check the project after a resource disappeared. Raises AccessDenied if the project may be wrong."""
        if not self.mass_deletion_breaker:
            return
        network = self._network()
        if network is None:
            if not self.is_proven:
                raise self.deny()
            return
        try:
            await self._api.get(f"/networks/{network}", "network", Network, priority=priority)
        except NotFound:
            if not await self.is_replaced():
                raise self.deny() from None
        self.confirm(0.0)

    async def is_replaced(self) -> bool:
        """Whether another network of this project replaced the deleted :attr:`network`."""
        return self._replaced is not None and await self._replaced()

    async def check_new_token(self, priority: Priority) -> None:
        """Check a new token once, if none of our resources was seen with it. Raises like :meth:`check`."""
        if self._api.token.number > 0 and not self.is_proven:
            await self.check(priority)

    def deny(self) -> AccessDenied:
        """Record that our resources are missing, and return the error to raise."""
        self._denied_at = self._clock()
        message = self._sentence()
        return AccessDenied(message, notices=[Notice("WrongProject", message)])

    def confirm(self, age: float | None) -> None:
        """Record that the API returned one of our resources ``age`` seconds ago (None = unknown)."""
        if age is None:
            return
        self._seen_with = self._api.token.number
        self._seen_at = max(self._seen_at, self._clock() - age)
        if self._denied_at is not None and self._seen_at >= self._denied_at:
            self._denied_at = None

    def _sentence(self) -> str:
        network = self._network()
        missing = (
            f"this project has no network {network}"
            if network
            else ("this project has none of the cluster's servers")
        )
        return (
            f"{missing}. The token probably belongs to another project, so nothing is deleted. If you "
            f"deleted the servers, run the CCM with {MASS_DELETION_BREAKER_OFF}"
        )


METADATA = "http://169.254.169.254/hetzner/v1/metadata"
_NETWORK_ID = re.compile(r"network_id:\s*(\d+)")


async def find_network(api: HetznerApi, name_or_id: str) -> Network:
    """Find a network. Raises ConfigurationError if it doesn't exist, ApiError if that is unknown."""
    if name_or_id.isascii() and name_or_id.isdigit():
        try:
            return await api.get(f"/networks/{name_or_id}", "network", Network, priority=Priority.NODES)
        except NotFound:
            pass  # the text may be a name
    found = await api.list(
        "/networks", "networks", Network, params={"name": name_or_id}, priority=Priority.NODES
    )
    if not found.items:
        problem = f"HCLOUD_NETWORK: the token's project has no network with name or id {name_or_id!r}"
        raise ConfigurationError([problem])
    return found.items[0]


async def read_attached_networks() -> str:
    """Read our server's networks from the metadata service; raises CloudUnavailable."""
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{METADATA}/private-networks") as answer,
        ):
            answer.raise_for_status()
            return await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CloudUnavailable(f"the metadata service does not respond: {type(error).__name__}") from error


async def check_attached(network: Network, read: Callable[[], Awaitable[str]]) -> None:
    """Raise ConfigurationError unless this server is in the network according to ``read``."""
    advice = "attach it, or set HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true"
    try:
        attached = await read()
    except CloudUnavailable as error:
        problem = (
            f"HCLOUD_NETWORK: can't determine whether this machine is in network {network.name!r} ({error})"
        )
        raise ConfigurationError([f"{problem}; {advice}"]) from error
    if network.id not in {int(number) for number in _NETWORK_ID.findall(attached)}:
        problem = f"HCLOUD_NETWORK: this machine is not in network {network.name!r} ({network.id})"
        raise ConfigurationError([f"{problem}; {advice}"])
