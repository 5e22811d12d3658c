"""Helm moves a release of the official chart to our chart, and back, beside the environment's own CCM."""

import os
from pathlib import Path

import yaml

from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import HELM
from sandbox.site import cache_directory
from tests import child_processes
from tests.e2e.cluster_state import lease_holder, role_of
from tests.e2e.conftest import TREE, Clone, eventually

OFFICIAL = TREE / "tests" / "charts" / "official"
NAME = "hcloud-cloud-controller-manager"
RELEASE = f"deployment/{NAME}"
CCMS = ("ccm-from-scratch", NAME)


def helm(clone: Clone, *arguments: str) -> None:
    program = toolchain.ensure(cache_directory(os.environ), print, [HELM]).bin / "helm"
    script = 'eval "$(./dev env)" && exec "$@"'
    command = ["bash", "-c", script, "helm", program, *arguments, "--namespace=kube-system"]
    done = child_processes.run(command, cwd=clone.root, timeout=300)
    assert done.returncode == 0, done.stderr


def values_of(deployment: dict) -> tuple[str, dict]:
    """The image of a Deployment of ours, and values with its flags and variables."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    flags = dict(one.removeprefix("--").partition("=")[::2] for one in container["args"])
    cidr = flags.pop("cluster-cidr")
    del flags["allocate-node-cidrs"]
    network = {"enabled": True, "clusterCIDR": cidr}
    variables = {one.pop("name"): one for one in container["env"]}
    for name in ("HCLOUD_NETWORK", "HCLOUD_TOKEN_FILE", "HCLOUD_METRICS_ADDRESS", "HCLOUD_METRICS_ENABLED"):
        del variables[name]  # the chart's to set
    return container["image"], {"args": flags, "env": variables, "networking": network}


def pods(clone: Clone) -> dict[str, tuple[int, str]]:
    """Restarts and node of each Pod that is no CCM, by name."""
    return {
        pod["metadata"]["name"]: (
            sum(one["restartCount"] for one in pod["status"].get("containerStatuses", [])),
            pod["spec"]["nodeName"],
        )
        for pod in clone.kubectl("get", "pods", "--all-namespaces")["items"]
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") not in CCMS
    }


def changes_nothing_else(clone: Clone, tmp_path: Path) -> None:
    """Move from the official release to our chart, and back; ``whoami`` has a load balancer."""
    clone.dev("kubectl", "apply", "-f", "manifests/examples/service.yaml")
    clone.dev("kubectl", "rollout", "status", "deployment/whoami", "--timeout=60s")
    ready = "--for=jsonpath={.status.loadBalancer.ingress[0].ip}"
    clone.dev("kubectl", "wait", ready, "service/whoami", "--timeout=60s")
    clone.settle()
    environment = "deployment/ccm-from-scratch"
    image, values = values_of(clone.kubectl("-n", "kube-system", "get", environment))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    given = f"--values={tmp_path / 'values.yaml'}"
    former = lease_holder(clone)
    # no two CCMs at the same time
    clone.dev("kubectl", "-n", "kube-system", "scale", environment, "--replicas=0")
    helm(clone, "install", "hccm", str(OFFICIAL), given)
    before = clone.writes(), load_balancers(clone), pods(clone), identities(clone)

    repository, _, tag = image.rpartition(":")
    ours = ["upgrade", "hccm", str(TREE / "charts" / "ccm-from-scratch"), given]
    ours += [f"--set=image.repository={repository},image.tag={tag}", "--wait", "--timeout=120s"]
    helm(clone, *ours)
    eventually(lambda: lease_holder(clone) not in ("", former), 60, "a new leader")
    clone.dev("kubectl", "-n", "kube-system", "rollout", "status", RELEASE, "--timeout=60s")
    assert (clone.writes(), load_balancers(clone), pods(clone), identities(clone)) == before

    # two replicas are on different nodes; the environment has the image only on the one where the CCM runs
    clone.dev("image", "--output", str(tmp_path / "ccm.tar"))
    clone.dev("load", str(tmp_path / "ccm.tar"))
    helm(clone, *ours, "--set=replicaCount=2,requireControlPlane=false")
    eventually(lambda: len(nodes_of_ours(clone)) == 2, 120, "two replicas on two nodes")
    assert (clone.writes(), load_balancers(clone)) == before[:2]
    one_is_killed(clone)
    drains_leave_one(clone)

    later = clone.writes(), load_balancers(clone)
    # the way back of the guide: ours has ended before the official one begins
    helm(clone, *ours[:3], "--reuse-values", "--set=replicaCount=0")
    gone = ("--for=delete", "pod", "--selector=app.kubernetes.io/instance=hccm", "--timeout=60s")
    clone.dev("kubectl", "-n", "kube-system", "wait", *gone)
    assert nodes_of_ours(clone) == set()
    helm(clone, "rollback", "hccm", "1")
    helm(clone, "uninstall", "hccm", "--wait")
    assert (clone.writes(), load_balancers(clone), pods(clone)) == (*later, before[2])
    clone.dev("kubectl", "-n", "kube-system", "scale", environment, "--replicas=1")
    clone.dev("kubectl", "-n", "kube-system", "rollout", "status", environment, "--timeout=60s")


def one_is_killed(clone: Clone) -> None:
    """A change while no replica leads is applied once, by another process."""
    former, before, balancers = lease_holder(clone), clone.writes(), load_balancers(clone)
    clone.dev("ssh", role_of(former.partition("_")[0]), "kill -9 $(pgrep -f '[-]m ccm')")
    second = ("--name=second", "--port=80", "--target-port=http", "--type=LoadBalancer")
    clone.dev("kubectl", "expose", "deployment/whoami", *second)
    ready = "--for=jsonpath={.status.loadBalancer.ingress[0].ip}"
    clone.dev("kubectl", "wait", ready, "service/second", "--timeout=120s")
    assert lease_holder(clone) not in ("", former)
    made = {name: number - before.get(name, 0) for name, number in clone.writes().items()}
    assert made["POST /load_balancers"] == 1
    clone.dev("kubectl", "delete", "service/second", "--timeout=120s")  # it has a finalizer
    assert load_balancers(clone) == balancers


def drains_leave_one(clone: Clone) -> None:
    """With no third node to go to, a drain ends one of two and waits with the other, which leads by then."""
    eventually(lambda: ready_of_ours(clone) == 2, 120, "both run again")
    first = lease_holder(clone).partition("_")[0]
    (second,) = nodes_of_ours(clone) - {first}
    others = clone.nodes().keys() - {first, second}
    clone.dev("kubectl", "cordon", *others)
    drain = ("kubectl", "drain", f"--pod-selector=app.kubernetes.io/name={NAME}")
    clone.dev(*drain, first, "--timeout=120s")
    eventually(lambda: lease_holder(clone).startswith(f"{second}_"), 120, "the other leads")
    holder = lease_holder(clone)
    refused = clone.dev(*drain, second, "--timeout=15s", check=False)  # it would go on for ever
    assert refused.returncode != 0
    assert "would violate the pod's disruption budget" in refused.stdout
    assert lease_holder(clone) == holder
    clone.dev("kubectl", "uncordon", first, second, *others)
    eventually(lambda: ready_of_ours(clone) == 2, 120, "both run again")


def identities(clone: Clone) -> dict[str, tuple[str, str, dict]]:
    """What a swap must leave as it is of each node."""
    return {
        name: (node["metadata"]["uid"], node["spec"]["providerID"], node["metadata"]["labels"])
        for name, node in clone.nodes().items()
    }


def load_balancers(clone: Clone) -> list[dict]:
    """All load balancers, without how healthy their targets are just now: that is no part of what is kept."""
    found = clone.api("/load_balancers")["load_balancers"]
    for target in (target for one in found for target in one["targets"]):
        target.pop("health_status")
    return found


def nodes_of_ours(clone: Clone) -> set[str]:
    """Where the release's Pods are, without those that are on their way out."""
    label = f"app.kubernetes.io/name={NAME}"
    found = clone.kubectl("-n", "kube-system", "get", "pods", "-l", label)["items"]
    staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {pod["spec"].get("nodeName", "") for pod in staying} - {""}


def ready_of_ours(clone: Clone) -> int:
    return clone.kubectl("-n", "kube-system", "get", RELEASE)["status"].get("readyReplicas", 0)
