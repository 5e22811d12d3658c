"""Stops a destroy before the first deletion while an object is protected against deletion at Hetzner.

Hetzner refuses to delete a protected object, but too late: by then the load balancers are deleted and the
workers drained. So each protected object has a resource that depends on all others and is therefore deleted
first. Its deletion fails while the cloud reports the object as protected.
"""

from collections.abc import Sequence
from typing import Any

import pulumi

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

    id_format = "{kind}/{object_id}"
    replaced_by = ("object_id",)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Checks that the object is not protected, or does not exist; nothing is deleted."""
        kind = _props["kind"]
        answer = fetch_or_none(fetcher(self.cloud()), f"/{kind}s/{_props['object_id']}")
        if answer is None:
            return
        found = answer[kind]
        if found["protection"]["delete"]:
            raise InfraError(
                f"the {kind.replace('_', ' ')} {found['name']} ({found['id']}) was not deleted, because it "
                f"is protected against deletion. To remove the protection: {_props['switch']}. Then run "
                "'pulumi up' without other changes, and repeat the command that failed"
            )


class Protection(ProviderResource, provider=ProtectionProvider):
    """An object of the cloud that is protected against deletion.

    ``kind`` is the object's, in the API's spelling. ``switch`` is the change that removes the protection at
    the next ``pulumi up``. This resource depends on all resources that would be deleted before the object.
    """


def guard_protected_resources(
    place: Place,
    settings: Settings,
    network: Network,
    servers: Servers,
    *,
    after: Sequence[pulumi.Resource] = (),
) -> None:
    """Guards the network, the control servers, their load balancer and the NAT server against deletion."""
    if not settings.protect:
        return
    switch = _OF_OUR_STACK if place.parent is None else _OF_ANOTHER_PROGRAM
    options = place.options(pulumi.ResourceOptions(depends_on=[network, servers, *after]))
    if not settings.import_network:
        # an imported network stays
        Protection(place.named("network"), options, kind="network", object_id=network.id, switch=switch)
    for server in [*servers.controls, *([servers.nat] if servers.nat else [])]:
        Protection(server.role, options, kind="server", object_id=server.server.id, switch=switch)
    if servers.endpoint:
        balancer = servers.endpoint.balancer.id
        Protection(place.named("api"), options, kind="load_balancer", object_id=balancer, switch=switch)
