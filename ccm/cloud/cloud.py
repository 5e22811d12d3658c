"""The cloud: a name and the capabilities that it has."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ccm.cloud.instances import Instances
from ccm.cloud.load_balancers import LoadBalancers
from ccm.cloud.routes import Routes


class Cloud(Protocol):
    """What the manager needs of a cloud. A capability that is None switches its controllers off.

    Opening a cloud (its factory) does no I/O and reports every wrong setting at once. ``start`` is awaited
    once, before any controller is built, and may bring capabilities; ``close`` once at the end, whatever
    happened.
    """

    @property
    def name(self) -> str:
        """The provider's name, as given to ``--cloud-provider``."""
        ...

    @property
    def has_cluster_id(self) -> bool:
        """Whether what it makes is marked with a cluster id. If not, ``--allow-untagged-cloud`` is needed."""
        ...

    @property
    def instances(self) -> Instances | None:
        """Machines; node and node lifecycle controllers."""
        ...

    @property
    def load_balancers(self) -> LoadBalancers | None:
        """Load balancers; service controller."""
        ...

    @property
    def routes(self) -> Routes | None:
        """Routes to the nodes' pods; route controller."""
        ...

    async def start(self) -> None:
        """Reach the cloud and check what can be checked.

        Raises:
            ConfigurationError: A setting names something that does not exist or must not be used.
            CloudError: The cloud can't be reached or refuses the credentials.
        """
        ...

    async def close(self) -> None:
        """Let go of connections, threads and background work."""
        ...

    def healthy(self) -> str | None:
        """What is wrong with the connection to the cloud, or None."""
        ...


@runtime_checkable
class ShowsEnvironment(Protocol):
    """A cloud may also show how its environment sets it; the manager's ``/configz`` has it then."""

    def shown_environment(self) -> Mapping[str, str]:
        """All variables that it knows, as texts, defaults included and secrets hidden."""
        ...


# Variables that the manager adds to a cloud's environment, since a cloud knows no flags.
MASS_DELETION_BREAKER = "CCM_MASS_DELETION_BREAKER"  # true or false, as --mass-deletion-breaker says
DRY_RUN = "CCM_DRY_RUN"  # true: the cloud is only asked what it would do

# How the owner says that what seems to have vanished all at once is really gone.
MASS_DELETION_BREAKER_OFF = "--mass-deletion-breaker=false"
