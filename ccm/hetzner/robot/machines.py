"""Finds Robot servers with few requests."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from ccm.cloud.cloud import MASS_DELETION_BREAKER_OFF
from ccm.cloud.errors import AccessDenied, CloudError, InstanceNotFound, Notice
from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance, NodeView
from ccm.hetzner.api import ListCache, Listing, Priority
from ccm.hetzner.api.api_errors import unavailable
from ccm.hetzner.provider_id import ROBOT_SCHEME
from ccm.hetzner.robot.client import RobotClient, RobotNotFound, RobotServer
from ccm.hetzner.server_to_instance import PROVIDED_BY, InstanceOptions, chosen_ipv6, first_of
from ccm.ip import parse_address

POWER_AGE = 120.0  # minimum seconds for which a power state is cached
POWER_SHARE = 24.0  # seconds for each polled server: 150 requests an hour, of the 200 that Robot allows
DENIED_AGE = 1800.0  # seconds without another request for a missing server

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Power:
    """A server's power, as Robot reported it."""

    asked_at: float = float("-inf")  # monotonic seconds
    shut_off: bool = False
    problem: str = ""  # why the power is not known


class RobotMachines:
    """Robot's servers as machines. All methods raise ``CloudError`` if the result is unknown.

    Args:
        cache_timeout: Maximum age of the list of servers in seconds.
        forward_internal: Keep internal addresses that the kubelet reported.
        mass_deletion_breaker: Treat servers as deleted only after this user saw a server of the cluster.
    """

    def __init__(
        self,
        client: RobotClient,
        *,
        cache_timeout: float = 300.0,
        forward_internal: bool = True,
        mass_deletion_breaker: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache_timeout = cache_timeout
        self._forward_internal = forward_internal
        self._mass_deletion_breaker = mass_deletion_breaker
        self._listed_for = self._showed_ours_to = ""
        self._clock = clock
        self._power: dict[int, _Power] = {}
        self._denied: dict[tuple[str, int], float] = {}
        self.servers: ListCache[RobotServer] = ListCache(self._fetch, clock=clock)

    async def get(
        self, node: NodeView, number: int, options: InstanceOptions, *, accepted_age: float
    ) -> Instance:
        """Find a server by its number.

        Raises InstanceNotFound if a request for this server reports that it doesn't exist, or AccessDenied if
        this user hasn't seen any server of the cluster before. Raises another CloudError if the result is
        unknown.
        """
        server = None
        if accepted_age > 0:
            contents = await self.servers.read(self._cache_timeout, Priority.SWEEP)
            server = contents.by_id.get(number)
            if server is not None:
                self._showed_ours_to = self._listed_for
            elif self._clock() - self._denied.get((self._client.user, number), float("-inf")) < DENIED_AGE:
                raise InstanceNotFound(f"Robot server {number}")
        if server is None:
            server = await self._look(number)
        return await self.describe(server, node, options, accepted_age=accepted_age)

    async def find(self, name: str) -> RobotServer | None:
        """Find a server by its name; None = the list doesn't contain the name."""
        contents = await self.servers.read(self._cache_timeout, Priority.NODES)
        return contents.by_name.get(name)

    async def addresses(self) -> Mapping[int, str]:
        """The servers' public IPv4 addresses, by number."""
        contents = await self.servers.read(self._cache_timeout, Priority.LOAD_BALANCERS)
        return {item.id: item.server_ip for item in contents.by_id.values() if item.server_ip}

    async def describe(
        self, server: RobotServer, node: NodeView, options: InstanceOptions, *, accepted_age: float
    ) -> Instance:
        """Describe a server. Requests its power state only if the caller needs the power state."""
        shut_down = node.asks_power and await self._is_shut_off(server.id, accepted_age)
        try:
            return describe_robot(
                server, node, options, forward_internal=self._forward_internal, shut_down=shut_down
            )
        except ValueError as error:
            raise unavailable(f"Robot server {server.id}", f"an address is malformed: {error}") from None

    async def close(self) -> None:
        """Close the connections, and stop background work."""
        await self.servers.close()
        await self._client.close()

    async def _look(self, number: int) -> RobotServer:
        user = self._client.user
        try:
            server = await self._client.server(number)
        except RobotNotFound:
            if user != self._showed_ours_to and self._mass_deletion_breaker:
                raise _wrong_account() from None
            self.servers.remove(number)
            now = self._clock()
            fresh = {name: at for name, at in self._denied.items() if now - at < DENIED_AGE}
            self._denied = {**fresh, (user, number): now}
            raise InstanceNotFound(f"Robot server {number}") from None
        self._showed_ours_to = user
        self.servers.put(server)
        return server

    async def _is_shut_off(self, number: int, accepted_age: float) -> bool:
        """Whether a server is known to be off.

        An unknown state counts as on, because the other data of the server is still valid. Some models have
        no reset, and users may lack the permission.
        """
        before = self._power.get(number, _Power())
        now = self._clock()
        asked_about = sum(now - one.asked_at < 3600 for one in self._power.values())
        if accepted_age > 0 and now - before.asked_at <= max(POWER_AGE, POWER_SHARE * asked_about):
            return before.shut_off
        try:
            power = _Power(now, await self._client.is_shut_off(number))
        except CloudError as error:
            power = _Power(now, problem=str(error))
            if power.problem != before.problem:
                log.warning("robot_power_unknown", server=number, why=power.problem)
        self._power[number] = power
        return power.shut_off

    async def _fetch(self, _: Priority) -> Listing[RobotServer]:
        user = self._client.user
        listing = await self._client.servers()
        self._listed_for = user
        return listing


def _wrong_account() -> AccessDenied:
    message = (
        "Robot returns none of the cluster's servers for this user. The credentials probably belong to "
        "another account, so the CCM deletes no Nodes. If you deleted the servers, restart the CCM with "
        f"{MASS_DELETION_BREAKER_OFF}"
    )
    return AccessDenied(message, notices=[Notice("WrongProject", message)])


_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")
_ZONES = {"fsn1": "eu-central", "nbg1": "eu-central", "hel1": "eu-central"}


def describe_robot(
    server: RobotServer, node: NodeView, options: InstanceOptions, *, forward_internal: bool, shut_down: bool
) -> Instance:
    """Describe a Robot server for a Node, which contains the addresses from the kubelet.

    Robot doesn't report a server's private addresses (vSwitch), but the kubelet does. ``forward_internal``
    keeps these addresses, except addresses of a disabled family and copies of the public address.
    """
    data_center = server.dc.lower()
    location = data_center.split("-")[0]
    if options.naming.official:
        region, zone = location, data_center
    else:
        region, zone = _ZONES.get(location, location), location
    own_ipv6, wrong = chosen_ipv6(node.annotations)
    external = list(_external(server, options, own_ipv6))
    internal, notices = _internal(node, external, options) if forward_internal else ([], [])
    notices += wrong
    if server.name != node.name:
        notices.append(_name_differs(server, node))
    return Instance(
        provider_id=f"{ROBOT_SCHEME}{server.id}",
        name=server.name,
        type=_NOT_IN_LABELS.sub("", server.product.replace(" ", "-")).strip("-_."),
        zone=zone,
        region=region,
        addresses=(Address(HOSTNAME, node.name), *external, *internal),
        labels={PROVIDED_BY: "robot"},
        shut_down=shut_down,
        notices=tuple(notices),
    )


def _external(server: RobotServer, options: InstanceOptions, own_ipv6: str) -> Iterator[Address]:
    if options.ipv6 and server.server_ipv6_net:
        yield Address(EXTERNAL_IP, own_ipv6 or first_of(f"{server.server_ipv6_net.split('/')[0]}/64"))
    if options.ipv4 and server.server_ip:
        yield Address(EXTERNAL_IP, server.server_ip)


def _internal(
    node: NodeView, external: list[Address], options: InstanceOptions
) -> tuple[list[Address], list[Notice]]:
    kept: list[Address] = []
    notices: list[Notice] = []
    public = {address.address for address in external}
    for address in node.addresses:
        if address.type != INTERNAL_IP:
            continue
        why = _why_not(address.address, public, options)
        if why:
            message = f"The Node doesn't get the kubelet's internal address {address.address}: {why}"
            notices.append(Notice("MisconfiguredInternalIP", message))
        else:
            kept.append(address)
    return kept, notices


def _why_not(text: str, public: set[str], options: InstanceOptions) -> str:
    if text in public:
        return "this is the external address; start the kubelet with --node-ip=<private address>"
    address = parse_address(text.partition("%")[0])  # one with a zone is an address of IPv6 to Go's CCM
    if address is None:
        return "this isn't an IP address"
    version = address.version
    if not (options.ipv4 if version == 4 else options.ipv6):
        return f"HCLOUD_INSTANCES_ADDRESS_FAMILY excludes IPv{version}"
    return ""


def _name_differs(server: RobotServer, node: NodeView) -> Notice:
    message = (
        f"the name of server {server.id} is {server.name!r} in Robot and {node.name!r} in the cluster. "
        "The CCM still uses this server for the node, because the node's provider ID names this server. Give "
        "the server and the node the same name, because other tools need equal names"
    )
    return Notice("RobotNameDiffers", message)
