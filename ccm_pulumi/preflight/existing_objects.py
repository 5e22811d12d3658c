"""The existing objects of an environment in the cloud: its servers, and its cluster's load balancers."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..config.labels import CLUSTER, STACK, cluster_labels
from ..config.placement import Placement, Present
from ..lib.cloud_api import Fetch, everything, labeled
from ..lib.ownership import ADOPTED
from ..lib.ownership import CLUSTER as MADE_BY


@dataclass(frozen=True)
class Balancer:
    """A load balancer that exists."""

    name: str
    type: str
    location: str


@dataclass(frozen=True)
class Environment:
    """The existing objects."""

    servers: Mapping[str, Present]  # by role
    balancers: tuple[Balancer, ...] = ()  # of Services
    endpoints: tuple[Balancer, ...] = ()  # load balancers of the Kubernetes API
    others: frozenset[str] = frozenset()  # other stacks that have servers of a cluster of this name


def read_environment(fetch: Fetch, cluster_name: str, stack: str) -> Environment:
    """Reads both lists in parallel; none with an invalid cluster name."""
    if not cluster_name:
        return Environment({})
    ours = cluster_labels(cluster_name, stack, {})
    of_any_stack = {key: value for key, value in ours.items() if key != STACK}
    with ThreadPoolExecutor(max_workers=1) as pool:
        asked = pool.submit(labeled, fetch, "servers", of_any_stack)
        balancers, found = everything(fetch, "load_balancers", ""), asked.result()
    servers = [server for server in found if server["labels"].get(STACK) == ours[STACK]]
    networks = {network["network"] for server in servers for network in server["private_net"]}
    return Environment(
        {server["name"].removeprefix(f"{cluster_name}-"): _server(server) for server in servers},
        tuple(
            _balancer(item)
            for item in balancers
            # two clusters may have the same name, and adopted load balancers are not the cluster's own
            if item["labels"].get(MADE_BY) == ours[CLUSTER]
            and ADOPTED not in item["labels"]
            and networks & {at["network"] for at in item["private_net"]}
        ),
        tuple(_balancer(item) for item in balancers if ours.items() <= item["labels"].items()),
        frozenset(server["labels"][STACK] for server in found if server["labels"].get(STACK)) - {ours[STACK]},
    )


def _balancer(item: Mapping[str, Any]) -> Balancer:
    return Balancer(item["name"], item["load_balancer_type"]["name"], item["location"]["name"])


def _server(server: Mapping[str, Any]) -> Present:
    public, image = server["public_net"], server["image"]
    return Present(
        Placement(server["server_type"]["name"], server["location"]["name"]),
        server["labels"],
        public["ipv4"] is not None,
        frozenset(at["network"] for at in server["private_net"]),
        is_public=public["ipv4"] is not None or public["ipv6"] is not None,
        # a snapshot has no name
        image=(image["name"] or str(image["id"])) if image else "",
        image_id=str(image["id"]) if image else "",
        group=(server.get("placement_group") or {}).get("name", ""),
        disk=server["primary_disk_size"],
        is_arm=server["server_type"].get("architecture") == "arm",
    )
