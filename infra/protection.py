"""What stands in front of what Hetzner protects against deletion, and says how to let it go.

Hetzner refuses to delete what is protected, but only when its turn comes: by then the load balancers are gone
and the workers drained. So for each protected object there is a resource that depends on everything else, is
therefore deleted first, and refuses while the cloud says that the object is protected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

from .assembly import Place
from .config.setting_types import NAMESPACE
from .config.settings import Settings
from .lib.cloud_api import fetch_or_none, fetcher
from .lib.dynamic import CloudProvider, ProviderResource
from .lib.errors import InfraError
from .servers.network import Network
from .servers.servers import Servers

_OF_OUR_STACK = f"pulumi config set {NAMESPACE}:protect false"
_OF_ANOTHER_PROGRAM = "protect=False among the cluster's settings"


class ProtectionProvider(CloudProvider):
    """Does nothing until it is deleted."""

    replaced_by = ("object_id",)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Notes what it stands in front of."""
        return CreateResult(f"{props['kind']}/{props['object_id']}", dict(props))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Looks whether the object may go; what is gone may.

        Raises:
            InfraError: It is protected; nothing of it was deleted.
            CloudError: The cloud could not be asked.
            ConfigurationError: There is no token.
        """
        kind = _props["kind"]
        answer = fetch_or_none(fetcher(self.cloud()), f"/{kind}s/{_props['object_id']}")
        if answer is None:
            return
        found = answer[kind]
        if found["protection"]["delete"]:
            raise InfraError(
                f"the {kind.replace('_', ' ')} {found['name']} ({found['id']}) is protected against "
                f"deletion; nothing of it was deleted. To let it go: {_props['switch']}; then, without any "
                "other change: pulumi up; then repeat the command"
            )


class Protection(ProviderResource, provider=ProtectionProvider):
    """An object of the cloud that is protected against deletion.

    ``kind`` is that of the object, in the API's spelling; ``switch`` takes the protection away at the next
    ``pulumi up``. Everything that would go before the object is what this depends on.
    """


def stand_in_front(
    place: Place,
    settings: Settings,
    network: Network,
    servers: Servers,
    *,
    after: Sequence[pulumi.Resource] = (),
) -> None:
    """Declares what refuses the deletion of network, control servers, their load balancer and the NAT server.

    Args:
        place: Where it is declared.
        settings: Say whether they are.
        network: Of the cluster.
        servers: Of the cluster.
        after: Everything else, as far as nothing in it depends on it.
    """
    if not settings.protect:
        return
    switch = _OF_OUR_STACK if place.parent is None else _OF_ANOTHER_PROGRAM
    options = place.options(pulumi.ResourceOptions(depends_on=[network, servers, *after]))
    if not settings.import_network:
        # one that was imported stays
        Protection(place.named("network"), options, kind="network", object_id=network.id, switch=switch)
    for server in [*servers.controls, *([servers.nat] if servers.nat else [])]:
        Protection(server.role, options, kind="server", object_id=server.server.id, switch=switch)
    if servers.endpoint:
        balancer = servers.endpoint.balancer.id
        Protection(place.named("api"), options, kind="load_balancer", object_id=balancer, switch=switch)
