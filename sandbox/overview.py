"""The table at the end of ``./dev up`` and of ``./dev status``."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sandbox import cluster
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site

NEXT = (
    ("./dev kubectl get nodes -o wide", "what Kubernetes says"),
    ("./dev kubectl apply -f manifests/examples/service.yaml", "a load balancer"),
    ("./dev logs", "follow the CCM"),
    ("./dev deploy", "rebuild and roll out the CCM after a change"),
    ("./dev ssh NAME", "a shell on a machine"),
    ("./dev down", "remove everything"),
)


def print_overview(site: Site, toolchain: Toolchain, console: Console) -> None:
    """Print nodes, load balancers and what to type next."""
    nodes = [cluster.node_state(node) for node in cluster.get(site, toolchain, "nodes")]
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in (
        "NODE",
        "READY",
        "PROVIDER ID",
        "INTERNAL-IP",
        "EXTERNAL-IP",
        "TYPE",
        "REGION",
        "ZONE",
        "POD CIDR",
    ):
        table.add_column(column, no_wrap=True)
    for n in sorted(nodes, key=lambda node: node.name):
        ready = "yes" if n.ready else "no"
        table.add_row(
            n.name,
            ready,
            n.provider_id or "-",
            n.internal_ip,
            n.external_ip,
            n.instance_type,
            n.region,
            n.zone,
            n.pod_cidr,
        )
    console.print()
    console.print(table, soft_wrap=True)
    for line in _load_balancers(site, toolchain):
        console.print(line, highlight=False)
    console.print(f"\nCloud console  http://127.0.0.1:{site.port}/_sandbox/console", highlight=False)
    console.print('Other clients  eval "$(./dev env)"\n', highlight=False)
    width = max(len(command) for command, _ in NEXT)
    for command, what in NEXT:
        console.print(f"  {command:<{width}}  {what}", highlight=False)


def _load_balancers(site: Site, toolchain: Toolchain) -> list[str]:
    services = cluster.get(site, toolchain, "services", "--all-namespaces")
    lines = []
    for service in services:
        if service["spec"].get("type") == "LoadBalancer":
            ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
            where = ", ".join(entry.get("ip") or entry.get("hostname", "") for entry in ingress) or "pending"
            lines.append(
                f"Load balancer  {service['metadata']['namespace']}/{service['metadata']['name']}  {where}"
            )
    return lines
