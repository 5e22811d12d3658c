"""The load balancer of the Kubernetes API, whose address stays when control servers are replaced.

Hetzner's firewalls don't protect load balancers. With a public interface everyone can connect to the API,
which authenticates clients by certificate or token.
"""

from collections.abc import Mapping

import pulumi
import pulumi_hcloud as hcloud

from ..config.k3s import API_PORT
from ..config.labels import CLUSTER, CONTROL_ROLE, STACK
from ..config.settings import PRIVATE_BALANCER, SERVER_ENDPOINT, Settings
from ..lib.ownership import DEFAULT_TYPE
from .network import Network

ROLE = "api"
"""The value of the load balancer's label ``role``."""
READY = ("2??", "401")
"""The status codes that ``/readyz`` returns if the API server is ready. The health check sends no
credentials, so k3s answers 401. Before the API server is ready, k3s answers 503."""


class ApiEndpoint(pulumi.ComponentResource):
    """A load balancer in the private network, for all control servers."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        labels: Mapping[str, str],
        network: Network,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ccm-from-scratch:index:ApiEndpoint", name, None, opts)
        public = settings.api_endpoint != PRIVATE_BALANCER
        self._name = name
        self.balancer = self._balancer(settings, labels)
        part = pulumi.ResourceOptions(parent=self, deleted_with=self.balancer, delete_before_replace=True)
        place = hcloud.LoadBalancerNetwork(
            name,
            load_balancer_id=self.balancer.id.apply(int),
            subnet_id=network.subnet.id,
            enable_public_interface=public,
            opts=part,
        )
        # private addresses can't be targets before it is in the network
        in_network = pulumi.ResourceOptions.merge(part, pulumi.ResourceOptions(depends_on=[place]))
        self._targets(labels, in_network)
        self._service(in_network)
        # None without a public interface
        self.public_ip: pulumi.Output[str] | None = self.balancer.ipv4 if public else None
        # at which the Kubernetes API is reached
        self.addresses: list[pulumi.Output[str]] = [place.ip, *([self.public_ip] if self.public_ip else [])]
        self.register_outputs({})

    def _balancer(self, settings: Settings, labels: Mapping[str, str]) -> hcloud.LoadBalancer:
        return hcloud.LoadBalancer(
            self._name,
            name=balancer_name(settings),
            load_balancer_type=DEFAULT_TYPE,
            location=settings.location,
            labels={**labels, "role": ROLE},
            delete_protection=settings.protect,
            # No setting contains the type, so a type that somebody has chosen by hand stays.
            opts=pulumi.ResourceOptions(
                parent=self, delete_before_replace=True, ignore_changes=["load_balancer_type"]
            ),
        )

    def _targets(self, labels: Mapping[str, str], options: pulumi.ResourceOptions) -> None:
        """All control servers, at their private addresses."""
        hcloud.LoadBalancerTarget(
            self._name,
            load_balancer_id=self.balancer.id.apply(int),
            type="label_selector",
            label_selector=control_selector(labels),
            use_private_ip=True,
            opts=options,
        )

    def _service(self, options: pulumi.ResourceOptions) -> None:
        """The port of the Kubernetes API, for whichever server says that it is ready."""
        hcloud.LoadBalancerService(
            self._name,
            load_balancer_id=self.balancer.id,
            protocol="tcp",
            listen_port=API_PORT,
            destination_port=API_PORT,
            health_check=hcloud.LoadBalancerServiceHealthCheckArgs(
                protocol="http",
                port=API_PORT,
                interval=3,
                timeout=2,
                retries=2,
                http=hcloud.LoadBalancerServiceHealthCheckHttpArgs(
                    path="/readyz", tls=True, status_codes=list(READY)
                ),
            ),
            opts=options,
        )


def balancer_name(settings: Settings) -> str:
    """Its name in the cloud."""
    return f"{settings.cluster_name}-api"


def has_endpoint(settings: Settings) -> bool:
    """Whether the program makes such a load balancer."""
    return settings.api_endpoint != SERVER_ENDPOINT and not settings.kubeconfig_path


def control_selector(labels: Mapping[str, str]) -> str:
    """A selector of labels that finds the control servers of an environment, and no other server."""
    wanted = {CLUSTER: labels[CLUSTER], STACK: labels[STACK], **CONTROL_ROLE}
    return ",".join(f"{key}=={value}" for key, value in wanted.items())
