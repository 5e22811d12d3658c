"""A minimal cloud: machines from a list in an environment variable. Copy it to start your own.

``SAMPLE_MACHINES=node-1=192.0.2.1,node-2=192.0.2.2`` defines two machines. The entry-point group
``ccm.clouds`` has ``sample = "ccm.cloud.sample:open_cloud"``, so that ``--cloud-provider=sample`` selects it.
"""

from collections.abc import Mapping, Sequence

from ccm.cloud.errors import CloudError, InstanceNotFound, NotOurs
from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, Address, Instance, NodeView
from ccm.errors import ConfigurationError

SCHEME = "sample://"


class SampleInstances:
    """Machines that always run."""

    def __init__(self, machines: Mapping[str, str]) -> None:
        self._machines = machines

    def owns(self, provider_id: str) -> bool:
        """See :meth:`ccm.cloud.Instances.owns`."""
        return provider_id.startswith(SCHEME)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """See :meth:`ccm.cloud.Instances.get`."""
        del accepted_age  # the list never changes
        if node.provider_id and not self.owns(node.provider_id):
            raise NotOurs(node.provider_id)
        name = node.provider_id.removeprefix(SCHEME) if node.provider_id else node.name
        if name not in self._machines:
            raise InstanceNotFound(name)
        addresses = (Address(HOSTNAME, name), Address(EXTERNAL_IP, self._machines[name]))
        return Instance(SCHEME + name, name, type="sample", region="nowhere", addresses=addresses)

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        """See :meth:`ccm.cloud.Instances.list`."""
        # Hetzner's implementation has a similar loop. They share no code, because readers copy this file.
        answers: dict[str, Instance | CloudError] = {}
        for node in nodes:
            try:
                answers[node.name] = await self.get(node, accepted_age=accepted_age)
            except CloudError as error:
                answers[node.name] = error
        return answers


class SampleCloud:
    """A cloud with machines, but without load balancers and routes."""

    name = "sample"
    has_cluster_id = True
    load_balancers: None = None
    routes: None = None

    def __init__(self, machines: Mapping[str, str]) -> None:
        self.instances = SampleInstances(machines)

    async def start(self) -> None:
        """Do nothing, because the cloud has no API."""

    async def close(self) -> None:
        """Do nothing, because there are no connections."""

    def healthy(self) -> str | None:
        """Return None, because a list can't fail."""
        return None


def open_cloud(environment: Mapping[str, str], **_: object) -> SampleCloud:
    """Parse ``SAMPLE_MACHINES``; raises ConfigurationError for an entry that isn't ``name=address``."""
    entries = [entry for entry in environment.get("SAMPLE_MACHINES", "").split(",") if entry]
    if wrong := [entry for entry in entries if "=" not in entry]:
        raise ConfigurationError([f"SAMPLE_MACHINES: {entry!r} is not name=address" for entry in wrong])
    return SampleCloud({name: address for name, _, address in (entry.partition("=") for entry in entries)})
