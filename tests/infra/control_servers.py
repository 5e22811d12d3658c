"""What tests of several control servers share."""

from pulumi.dynamic import ConfigureRequest

from ccm_pulumi.cluster.peers import Peer
from tests.served_cloud import TOKEN

DYNAMIC = "pulumi-python:dynamic/ccm-from-scratch:"
SERVER = "hcloud:index/server:Server"
ROLES = ["control", "control-2", "control-3"]


def node(name="w-1", *, ready="True", message="", labels=None, annotations=None, **spec):
    """A Node that has all that it needs, as the Kubernetes API has it."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"providerID": "hcloud://7", "podCIDR": "10.244.1.0/24", **spec},
        "status": {
            "conditions": [
                {"type": "Ready", "status": ready, "message": message},
                {"type": "NetworkUnavailable", "status": "False"},
            ],
            "nodeInfo": {"kubeletVersion": "v1.36.3+k3s1"},
        },
    }


def peer(number, **changes):
    facts = {"public": f"203.0.113.{number}", "private": f"10.0.0.{number}", "runs": True}
    return Peer(str(number), f"c-{number}", **{**facts, **changes})


def cloud_server(number, *, name="c", labels=(), places=None, public="127.0.0.1", status="running"):
    """A server as the cloud has it; its places are addresses by the IDs of networks."""
    places = {7: f"10.0.0.{number}"} if places is None else places
    return {
        "id": number,
        "name": f"{name}-{number}",
        "status": status,
        "labels": dict(labels),
        "public_net": {"ipv4": {"ip": public} if public else None},
        "private_net": [{"network": network, "ip": ip} for network, ip in places.items()],
    }


PROPS = {
    "server_id": "7",
    "address": "203.0.113.7",
    "private_ip": "10.0.0.7",
    "install_url": "https://example.com/i",
    "channel": "",
    "version": "",
    "cluster_cidr": "10.244.0.0/16",
    "service_cidr": "10.43.0.0/16",
    "disable": [],
    "network_policy": True,
    "token": "t",
    "agent_token": "a",
}
SEVERAL = {**PROPS, "member": {"node": "c-1", "first": True, "labels": {}}}

SNAPSHOTS = {"schedule": "0 */6 * * *", "retention": "9"}
FLAGS = {"etcd-snapshot-schedule-cron": "0 */6 * * *", "etcd-snapshot-retention": "9"}


def at_cloud(provider, endpoint="http://127.0.0.1:9", token=TOKEN, **settings):
    """The provider, configured for a cloud; at the default endpoint, no cloud answers."""
    config = {"hcloud:token": token, "hcloud:endpoint": endpoint}
    provider.configure(ConfigureRequest(config | {f"ccm-from-scratch:{k}": v for k, v in settings.items()}))
    return provider


def of(registered, kind):
    return {item.name: item for item in registered if item.type.endswith(kind)}


def waits_for(item):
    return {urn.rpartition("::")[2] for urn in item.options.dependencies if "K3sServer" in urn}
