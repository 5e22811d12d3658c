"""What a test sees of an environment: nodes, routes, load balancers."""

import json
import re
import socket
import urllib.request


def taints(node):
    return {taint["key"] for taint in node["spec"].get("taints", [])}


def addresses(node):
    return {(a["type"], a["address"]) for a in node["status"]["addresses"]}


def ready(node):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def routes(environment):
    (network,) = environment.api("/networks")["networks"]
    return {route["destination"]: route["gateway"] for route in network["routes"]}


def internal(node):
    return next(address for kind, address in addresses(node) if kind == "InternalIP")


def load_balancer_ip(environment, what):
    """The IPv4 address of a Service's load balancer; None while there is none."""
    found = environment.kubectl("get", what)["status"]["loadBalancer"].get("ingress") or []
    return next((item["ip"] for item in found if "." in item.get("ip", "")), None)


def http_get(url, seconds=5):
    """The body of a good answer."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # it is asked again
            return answer.read().decode()
    except OSError:
        return None


def first_line(address):
    """Our own address, and the first line that comes back; None where nothing does."""
    try:
        with socket.create_connection((address, 80), timeout=5) as made:  # it is asked again
            made.sendall(b"hello\n")
            line = made.makefile().readline()
            return (made.getsockname()[0], line) if line else None
    except OSError:
        return None


def run_on(environment, node, image):
    """Run a Pod of an image on one node until it is Ready."""
    pod = f"pod-{node}"
    placed = json.dumps({"spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}]}})
    environment.dev("kubectl", "run", pod, f"--image={image}", f"--overrides={placed}")
    environment.dev("kubectl", "wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
    environment.dev("kubectl", "delete", "pod", pod, "--now")


def answers(url):
    return http_get(url, seconds=30) is not None


def default_route(clone):
    """The worker's default route; empty if it has none."""
    return clone.dev("ssh", "worker-1", "ip", "-4", "route", "show", "default").stdout.strip()


def balancers(clone):
    found = clone.api("/load_balancers")["load_balancers"]
    return [item for item in found if not item["name"].endswith("-api")]


def targets(clone):
    """The IDs of servers to which load balancers send."""
    found = clone.api("/load_balancers")["load_balancers"]
    return {target["server"]["id"] for balancer in found for target in balancer["targets"]}


def public_address(balancer):
    return balancer["public_net"]["ipv4"]["ip"]


def api_balancer(clone):
    """The load balancer of the Kubernetes API."""
    found = clone.api("/load_balancers")["load_balancers"]
    return next(item for item in found if item["name"].endswith("-api"))


def api_address(clone):
    return public_address(api_balancer(clone))


def nothing_to_do(clone):
    """Fails unless a preview finds the stack as its program wants it."""
    said = clone.pulumi("preview", "--stack", "local").stdout
    assert re.search(r"\d+ unchanged", said), said
    assert not re.search(r"\d+ to (create|update|replace|delete)", said), said
