"""The cloud: a name and the capabilities that it has."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ccm.cloud.instances import Instances
from ccm.cloud.load_balancers import LoadBalancers
from ccm.cloud.routes import Routes


class Cloud(Protocol):
    """A cloud for the manager. If a capability is None, the manager doesn't start its controllers.

    The factory of a cloud does no I/O and reports all wrong settings together. The manager awaits ``start``
    once before it creates controllers. ``start`` may add capabilities. The manager always awaits ``close``.
    """

    @property
    def name(self) -> str:
        """The value of ``--cloud-provider`` that selects this cloud."""
        ...

    @property
    def has_cluster_id(self) -> bool:
        """Whether resources have a cluster ID label; if not, ``--allow-untagged-cloud`` is needed."""
        ...

    @property
    def instances(self) -> Instances | None:
        """The machines, for the node controller and the node lifecycle controller."""
        ...

    @property
    def load_balancers(self) -> LoadBalancers | None:
        """The load balancers, for the service controller."""
        ...

    @property
    def routes(self) -> Routes | None:
        """The routes to the Pods of Nodes, for the route controller."""
        ...

    async def start(self) -> None:
        """Connect to the cloud and check the settings.

        Raises:
            ConfigurationError: A setting names an object that doesn't exist or can't be used.
            CloudError: The cloud is unreachable or refuses the credentials.
        """
        ...

    async def close(self) -> None:
        """Close connections, and stop threads and background tasks."""
        ...

    def healthy(self) -> str | None:
        """The problem of the connection to the cloud, or None."""
        ...


@runtime_checkable
class ShowsEnvironment(Protocol):
    """Optional for a cloud: its environment variables, for the manager's ``/configz``."""

    def shown_environment(self) -> Mapping[str, str]:
        """The values of all variables that the cloud supports, with defaults and without secrets."""
        ...


# Variables that the manager adds to a cloud's environment, because a cloud doesn't read flags.
MASS_DELETION_BREAKER = "CCM_MASS_DELETION_BREAKER"  # true or false, the value of --mass-deletion-breaker
DRY_RUN = "CCM_DRY_RUN"  # true: the cloud changes nothing

# The flag that confirms that resources which disappeared at the same time are really deleted.
MASS_DELETION_BREAKER_OFF = "--mass-deletion-breaker=false"
