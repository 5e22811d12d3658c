"""The table at the end of ``./dev up`` and of ``./dev status``."""

from collections.abc import Collection, Sequence

from ccmfs_common.terminal import printable
from sandbox import cluster, daemon, takeover
from sandbox.api import Api
from sandbox.environment import MACHINES
from sandbox.errors import CloudError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site

HEADER = ("NODE", "READY", "PROVIDER ID", "INTERNAL-IP", "EXTERNAL-IP", "TYPE", "REGION", "ZONE", "POD CIDR")
# What goes first where the terminal is too narrow; './dev kubectl get nodes' knows it, too.
EXPENDABLE = ("REGION", "TYPE", "POD CIDR", "PROVIDER ID", "ZONE")
SSH = "./dev ssh control"
PENDING = "pending"
NEXT = (
    ("./dev kubectl get nodes -o wide", "what Kubernetes says"),
    ("./dev kubectl apply -f manifests/examples/service.yaml", "a load balancer"),
    ("./dev logs", "follow the CCM"),
    ("./dev deploy", "rebuild and roll out the CCM after a change"),
    (SSH, "a shell on a machine"),
    ('eval "$(./dev env)"', "set the environment variables for clients such as kubectl, pulumi and hcloud"),
    ("./dev down", "remove everything"),
)


def overview(site: Site, toolchain: Toolchain, width: int | None = None) -> str:
    """Nodes, load balancers and what to type next; without a width (no terminal), all columns, no secret."""
    found = cluster.get(site, toolchain, "nodes,services", "--all-namespaces")
    nodes = [cluster.node_state(item) for item in found if item["kind"] == "Node"]
    balancers = [line for item in found if item["kind"] == "Service" and (line := load_balancer(item))]
    off = powered_off(Api(site.address))
    table = [HEADER, *(row(node, off) for node in sorted(nodes, key=lambda node: node.name))]
    parts = [aligned(fitted(table, width, EXPENDABLE))]
    if balancers:
        parts.append(aligned([("LOAD BALANCER", "EXTERNAL-IP"), *balancers]))
    if pending := [name for name, where in balancers if where == PENDING]:
        namespace, _, service = pending[0].partition("/")
        parts.append(
            f"• {len(pending)} of these have no address yet. For the reason, see the Events: "
            f"./dev kubectl -n {namespace} describe service {service}"
        )
    if why := takeover.why_no_pod(site):
        parts.append(f"• {why}")
    parts.append(console(site, terminal=width is not None))
    running = daemon.find(site)
    possible = [line for line in NEXT if line[0] != SSH or (running and running.backend == MACHINES)]
    parts.append("Next:\n" + aligned([(f"  {command}", what) for command, what in possible]))
    return "\n\n".join(parts)


def console(site: Site, *, terminal: bool) -> str:
    """Where the cloud's console is. Only a terminal gets the token, because other output may be stored."""
    if terminal:
        return f"Console of the cloud: {site.console}"
    bare = site.console.partition("#")[0]
    return f"Console of the cloud: {bare} (to show the token, run './dev status' in a terminal)"


def powered_off(api: Api) -> set[str]:
    """The ids of the servers that are off; none where the cloud does not say."""
    try:
        return {str(server["id"]) for server in api.list("servers", status="off")}
    except CloudError:  # injected faults, an exhausted limit
        return set()


def row(node: cluster.NodeState, off: Collection[str] = ()) -> tuple[str, ...]:
    """One node as a line of the table."""
    # In the cluster, a Node stays Ready for most of a minute after its server is off.
    is_off = node.provider_id.rpartition("/")[2] in off
    addresses = (node.provider_id, node.internal_ip, node.external_ip)
    others = (node.instance_type, node.region, node.zone, node.pod_cidr)
    ready = "off" if is_off else "yes" if node.ready else "no"
    return (node.name, ready, *(value or "-" for value in (*addresses, *others)))


def load_balancer(service: dict) -> tuple[str, str] | None:
    """A Service of type LoadBalancer as a line of the table; None for other Services."""
    if service["spec"].get("type") != "LoadBalancer":
        return None
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    where = ", ".join(entry.get("ip") or entry.get("hostname", "") for entry in ingress)
    return f"{service['metadata']['namespace']}/{service['metadata']['name']}", where or PENDING


def fitted(rows: Sequence[Sequence[str]], width: int | None, expendable: Sequence[str]) -> list[list[str]]:
    """A table without the columns that don't fit."""
    kept = [list(cells) for cells in rows]
    for header in expendable:
        if width is None or max(map(len, aligned(kept).splitlines())) <= width:
            break
        place = kept[0].index(header)
        kept = [[*cells[:place], *cells[place + 1 :]] for cells in kept]
    return kept


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of text, as wide as they need to be, without what a terminal would obey.

    A kubelet says what addresses its Node has, and a client what is in the path of a request.
    """
    rows = [[printable(cell) for cell in cells] for cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    )
