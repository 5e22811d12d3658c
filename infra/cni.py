"""The Pods' network: native (a bridge on every node, between them the cloud's routes) or Cilium."""

from __future__ import annotations

import json

import pulumi

from infra.chart import Chart
from infra.settings import Settings

CONFIGURATION_PATH = "/etc/cni/net.d/10-native.conflist"
"""Without Flannel k3s leaves containerd's own defaults: this folder, and /opt/cni/bin for the plugins."""

_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
CILIUM_VERSION = "1.18.4"


def bridge_configuration(pod_cidr: str) -> str:
    """The configuration that containerd reads: one bridge with the node's own range, and host ports.

    Addresses outside the node see the node's address instead of the Pod's, other Pods included.
    """
    ipam = {"type": "host-local", "ranges": [[{"subnet": pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": True,
        "ipam": ipam,
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "1.0.0", "name": "native", "plugins": plugins}, indent=2)


def bridge_script(pod_cidr: str) -> str:
    """Puts k3s's own plugins and the configuration where containerd looks; it takes effect at once."""
    return f"""set -eu
mkdir -p /opt/cni/bin /etc/cni/net.d
for plugin in {" ".join(_PLUGINS)}; do
  [ -e /opt/cni/bin/$plugin ] || ln -sf /var/lib/rancher/k3s/data/current/bin/$plugin /opt/cni/bin/$plugin
done
cat > {CONFIGURATION_PATH}.new <<'END'
{bridge_configuration(pod_cidr)}
END
mv {CONFIGURATION_PATH}.new {CONFIGURATION_PATH}
"""


class Cilium(Chart):
    """Cilium by Helm, with the Pods' ranges from Kubernetes and the cloud's routes instead of tunnels."""

    def __init__(self, name: str, settings: Settings, in_cluster: pulumi.ResourceOptions) -> None:
        release = {
            "name": "cilium",
            "namespace": "kube-system",
            "chart": "cilium",
            "version": CILIUM_VERSION,
            "repository_opts": {"repo": "https://helm.cilium.io"},
            "values": cilium_values(settings),
            # its agents can't be ready before the cloud-controller-manager has initialised their nodes
            "skip_await": True,
        }
        super().__init__("Cilium", name, release, in_cluster)


def cilium_values(settings: Settings) -> dict[str, object]:
    """What differs from the chart's defaults."""
    return {
        "ipam": {"mode": "kubernetes"},
        "routingMode": "native",
        "ipv4NativeRoutingCIDR": str(settings.cluster_cidr),
        "operator": {"replicas": 1},
    }
