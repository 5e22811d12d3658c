"""The cluster-autoscaler, for pools with bounds: what it is deployed with, and what its servers begin with.

Its provider for Hetzner is documented in
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/hetzner/README.md
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from ..cluster import k3s_flags, k3s_scripts
from ..cluster.cluster import Cluster
from ..cluster.k3s_versions import oldest, pinned
from ..cluster.peers import labels_of
from ..cluster.pod_network import script as pod_network_script
from ..config.k3s import Release
from ..config.pools import GROUP_SEPARATOR, Pool, taint_parts
from ..config.setting_types import key_of
from ..config.settings import Settings
from ..lib.errors import Problem
from ..lib.kubernetes_object import KubernetesObject
from ..lib.service_accounts import account_with_rights, rolled_with
from ..servers.nat import private_script
from ..servers.servers import Servers
from .node_group import AUTOSCALER, LABEL, NodeGroup
from .security_updates import script as security_updates_script

NAMESPACE = "kube-system"
MAX_USER_DATA = 32768
"""Maximum size of a server's user data, in bytes: https://docs.hetzner.cloud/reference/cloud#servers-create-a-server"""

ZONES = {
    "fsn1": "fsn1-dc14",
    "nbg1": "nbg1-dc3",
    "hel1": "hel1-dc2",
    "ash": "ash-dc1",
    "hil": "hil-dc1",
    "sin": "sin-dc1",
}
"""Maps each location to the zone label of its Nodes.

The cloud-controller-manager sets this label if its provider name is ``hcloud``. The cluster-autoscaler
reads the zone of an existing Node from the labels of the Node. For a Node that doesn't exist yet, the
cluster-autoscaler needs this table.
"""

_ZONE = "topology.kubernetes.io/zone"
_FILE = "cluster-config.json"
_FOLDER = "/config"
_POD_CIDR = "POD-CIDR-OF-THIS-NODE"
_KUBELET = "/var/lib/rancher/k3s/agent/kubelet.kubeconfig"


def group_name(settings: Settings, pool: Pool) -> str:
    """The name of a pool's node group. The names of its servers begin with it.

    The cluster-autoscaler manages every server of the project whose label has this name. Clusters with other
    names can't have it: a pool's name contains no separator and doesn't begin with a hyphen.
    """
    return f"{settings.cluster_name}{GROUP_SEPARATOR}{pool.name}"


def user_data(
    settings: Settings, pool: Pool, servers: Sequence[str], agent_token: str, installed: Sequence[str | None]
) -> str:
    """What a new server of a pool runs at its first boot. It joins one of ``servers``, the control servers'
    private addresses. ``installed``, their versions of k3s, matters only if the settings have no version.
    """
    release = Release(settings.k3s_install_url, settings.k3s_channel, settings.k3s_version)
    # The cluster-autoscaler expects this label of its own on the Node.
    flags = k3s_flags.pool_flags({**pool.labels, LABEL: group_name(settings, pool)}, pool.taints)
    join = k3s_scripts.self_joining_script(
        pinned(release, oldest(version for version in installed if version)),
        servers,
        agent_token,
        flags=flags,
        public=bool(pool.public_ipv4),
    )
    nat_route = "" if pool.public_ipv4 else private_script(settings.network_cidr)
    network = _pod_network(settings) if settings.cni == "native" else ""
    updates = security_updates_script() if settings.os_upgrades else ""
    return f"#!/bin/sh\n{nat_route}{join}\n{network}{updates}"


def user_data_problems(settings: Settings) -> list[Problem]:
    """Problems of pools whose labels and taints make the user data larger than Hetzner allows."""
    servers, problems = ["255.255.255.255"] * settings.control_count, []
    for index, pool in enumerate(settings.worker_pools):
        data = "" if pool.max is None else user_data(settings, pool, servers, "0" * 64, [])
        if (size := len(data.encode())) > MAX_USER_DATA:
            allowed = (
                f"with the labels and taints of this pool, the user data of a server has {size} bytes. "
                f"Hetzner allows at most {MAX_USER_DATA} bytes"
            )
            problems.append(Problem(f"{key_of('pools')}[{index}]", pool.name, allowed))
    return problems


def _pod_network(settings: Settings) -> str:
    """What ccm_pulumi/cluster/pod_network.py does over SSH to the nodes that Pulumi knows."""
    pods, metadata = str(settings.cluster_cidr), settings.pods_reach_metadata
    commands = pod_network_script(_POD_CIDR, pods, metadata=metadata)
    return f"""umask 022
mkdir -p /etc/cni
cat > /etc/cni/pod-network.sh <<'SCRIPT'
{commands}SCRIPT
n=0
until range=$(k3s kubectl --kubeconfig={_KUBELET} get node "$(hostname)" -o 'jsonpath={{.spec.podCIDR}}') &&
  [ -n "$range" ]; do
  n=$((n + 1))
  [ "$n" -lt 300 ] || {{ echo 'this node has no Pod CIDR' >&2; exit 1; }}
  sleep 1
done
sed "s|{_POD_CIDR}|$range|" /etc/cni/pod-network.sh | sh
"""


def cluster_config(
    settings: Settings, servers: Sequence[str], agent_token: str, installed: Sequence[str | None]
) -> str:
    """The JSON of the file that ``HCLOUD_CLUSTER_CONFIG_FILE`` names; parameters as in ``user_data``."""
    pools = settings.autoscaled_pools
    image = pools[0].image
    # Without this, Hetzner attaches servers to the last subnet of an imported network. The autoscaler then
    # creates them powered off. The stack's own network has one subnet and does not need it.
    subnet = {"defaultSubnetIPRange": str(settings.subnet_cidr)} if settings.import_network else {}
    return json.dumps(
        {
            **subnet,
            "imagesForArch": {"amd64": image, "arm64": image},
            "nodeConfigs": {
                group_name(settings, pool): {
                    "cloudInit": user_data(settings, pool, servers, agent_token, installed),
                    "labels": {**pool.labels, _ZONE: ZONES.get(pool.location, pool.location)},
                    "taints": [_taint(text) for text in pool.taints],
                }
                for pool in pools
            },
        },
        sort_keys=True,
    )


def _taint(text: str) -> dict[str, str]:
    key, value, effect = taint_parts(text)
    return {"key": key, "value": value, "effect": effect}


def arguments(settings: Settings) -> list[str]:
    """The command line."""
    groups = [
        f"--nodes={pool.min}:{pool.max}:{pool.server_type}:{pool.location}:{group_name(settings, pool)}"
        for pool in settings.autoscaled_pools
    ]
    return ["./cluster-autoscaler", "--cloud-provider=hetzner", "--enforce-node-group-min-size=true", *groups]


def deployment(
    settings: Settings, variables: Mapping[str, pulumi.Input[str]], config: pulumi.Input[str]
) -> dict[str, Any]:
    """Spec of the Deployment. ``config`` changes with the file that its Pod reads when it starts."""
    labels = {"app": AUTOSCALER}
    token = {"name": "HCLOUD_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "token"}}}
    file = {"name": "HCLOUD_CLUSTER_CONFIG_FILE", "value": f"{_FOLDER}/{_FILE}"}
    container = {
        "name": AUTOSCALER,
        "image": settings.autoscaler_image,
        "command": arguments(settings),
        "env": [token, file, *({"name": name, "value": value} for name, value in variables.items())],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": _FOLDER, "readOnly": True}],
    }
    return {
        "replicas": 1,
        # With two Pods at a time, the old one would still create servers of a pool that was removed.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"ccm-from-scratch.local/config": config}},
            "spec": {
                "serviceAccountName": AUTOSCALER,
                # not on a server that it may remove
                "nodeSelector": {"node-role.kubernetes.io/control-plane": "true"},
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
                "containers": [container],
                "volumes": [{"name": "config", "secret": {"secretName": AUTOSCALER}}],
            },
        },
    }


def variables(
    settings: Settings, servers: Servers, network_id: pulumi.Input[str]
) -> dict[str, pulumi.Input[str]]:
    """Environment variables for the autoscaler and its new servers, except the token and the file."""
    private = not all(pool.public_ipv4 for pool in settings.autoscaled_pools)
    nowhere = {"HCLOUD_PUBLIC_IPV4": "false", "HCLOUD_PUBLIC_IPV6": "false"}
    return {
        "HCLOUD_NETWORK": network_id,
        # Hetzner has no firewalls for servers without a public interface
        **(nowhere if private else {"HCLOUD_FIREWALL": servers.firewall.id}),
        "HCLOUD_SSH_KEY": servers.ssh_key.id,
        **({"HCLOUD_ENDPOINT": settings.hcloud_endpoint} if settings.hcloud_endpoint else {}),
    }


class Autoscaler(pulumi.ComponentResource):
    """The cluster-autoscaler in a cluster, and what removes its servers."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        servers: Servers,
        *,
        network_id: pulumi.Input[str],
        cluster: Cluster,
        agent_token: pulumi.Input[str],
        cloud_token: pulumi.Input[str],
        in_cluster: pulumi.ResourceOptions,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it. ``after`` has the resources that its servers need as long as they exist."""
        super().__init__("ccm-from-scratch:index:Autoscaler", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self, depends_on=[*after])
        groups = [
            NodeGroup(
                f"{name}-{pool.name}",
                mine,
                **servers.control_inputs(),
                labels=labels_of(servers.labels),
                group=group_name(settings, pool),
                network_id=network_id,
                generation=cluster.generation,
                drain_seconds=settings.drain_seconds,
            )
            for pool in settings.autoscaled_pools
        ]
        here = pulumi.ResourceOptions.merge(in_cluster, mine)
        config = _config(settings, servers, cluster, agent_token)
        file = {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(), "stringData": {_FILE: config}}
        secret = KubernetesObject(f"{name}-config", file, here)
        permissions = account_with_rights(name, _metadata(), _RULES, _RULES_AT_HOME, here)
        # deleted before its groups: a group that finds it assumes that the whole environment is destroyed
        needed: list[pulumi.Resource] = [*groups, secret, *permissions]
        given = variables(settings, servers, network_id)
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            # the run does not wait for it: the cluster works without it
            "metadata": {**_metadata(), "annotations": {"pulumi.com/skipAwait": "true"}},
            "spec": rolled_with(permissions[0], deployment(settings, given, _digest(config, cloud_token))),
        }
        after_them = pulumi.ResourceOptions(depends_on=needed)
        scaler = KubernetesObject(name, manifest, pulumi.ResourceOptions.merge(here, after_them))
        self.all: list[pulumi.Resource] = [*needed, scaler]
        self.register_outputs({})


def _digest(config: pulumi.Input[str], cloud_token: pulumi.Input[str]) -> pulumi.Output[str]:
    """Changes with the file and the token: the cluster-autoscaler reads both when it starts."""
    return pulumi.Output.unsecret(pulumi.Output.all(config, cloud_token)).apply(
        lambda texts: hashlib.sha256("".join(texts).encode()).hexdigest()
    )


def _config(
    settings: Settings, servers: Servers, cluster: Cluster, agent_token: pulumi.Input[str]
) -> pulumi.Output[str]:
    """The file with the servers' user data, a secret. It changes when the control servers are upgraded."""
    installed = [] if settings.k3s_version else [control.installed for control in cluster.servers]
    known = pulumi.Output.all(
        pulumi.Output.all(*(control.private_ip for control in servers.controls)),
        agent_token,
        pulumi.Output.all(*installed),
    )
    return pulumi.Output.secret(known.apply(lambda facts: cluster_config(settings, *facts)))


def _metadata() -> dict[str, Any]:
    return {"name": AUTOSCALER, "namespace": NAMESPACE}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], *names: str) -> dict[str, Any]:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **named}


_READ = ("get", "list", "watch")
# What it asks for, by the example in its repository
# (cloudprovider/hetzner/examples/cluster-autoscaler-run-on-master.yaml) and for its simulated scheduler.
_RULES = [
    _rule("", ("events",), ("create", "patch")),
    _rule("events.k8s.io", ("events",), ("create", "patch")),
    _rule("", ("pods/eviction",), ("create",)),
    _rule("", ("pods/status",), ("update",)),
    _rule("", ("nodes",), (*_READ, "update")),
    _rule(
        "",
        (
            "namespaces",
            "pods",
            "services",
            "replicationcontrollers",
            "persistentvolumeclaims",
            "persistentvolumes",
        ),
        _READ,
    ),
    _rule("apps", ("statefulsets", "replicasets", "daemonsets"), _READ),
    _rule("batch", ("jobs", "cronjobs"), _READ),
    _rule("policy", ("poddisruptionbudgets",), _READ),
    _rule(
        "storage.k8s.io",
        ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
        _READ,
    ),
    _rule("resource.k8s.io", ("resourceclaims", "resourceslices", "deviceclasses"), _READ),
    _rule("coordination.k8s.io", ("leases",), ("create",)),
    _rule("coordination.k8s.io", ("leases",), ("get", "update"), AUTOSCALER),
]
_RULES_AT_HOME = [
    _rule("", ("configmaps",), ("create", "list", "watch")),
    _rule(
        "",
        ("configmaps",),
        ("get", "update", "delete", "watch"),
        "cluster-autoscaler-status",
        "cluster-autoscaler-priority-expander",
    ),
]
