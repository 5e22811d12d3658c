"""Upgrades of the operating system: what they need is there, on servers and in the cluster.

kured itself can't be had here: its Pods wait for their image. So the test does what ``rebootAsRequired``
of its cmd/kured/main.go does (https://github.com/kubereboot/kured), with its account's rights, and reboots a
server by its command in a Pod as its own, which has another image.
"""

import json

import pytest

from ccm_pulumi.addons.kured import LOCK
from ccm_pulumi.cluster.drain import EXCLUDED
from image import toolbox
from k3s_standin.versions import BUSYBOX_IMAGE
from sandbox.cluster import node_state
from tests.e2e import cluster_state, workload
from tests.e2e.conftest import eventually
from tests.e2e.looks import targets
from tests.e2e.probing_clients import ReadyWatch, ServiceClient

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

WINDOW = {"days": ["sat", "sun"], "start": "02:00", "end": "05:00", "timeZone": "Europe/Berlin"}
KURED = ("-n", "kube-system", "daemonset", "kured")
ROLES = ("control", "worker-1", "worker-2")
NEEDED = "/var/run/reboot-required"
REBOOT = "nsenter -m/proc/1/ns/mnt -- /bin/systemctl reboot"
SECONDS = 120


def kured(clone, node, *arguments):
    """Call kubectl with the rights of kured's account, and a token that is bound to a node as a Pod's is."""
    bound = ("--bound-object-kind=Node", f"--bound-object-name={node}")
    token = clone.dev("kubectl", "-n", "kube-system", "create", "token", "kured", *bound).stdout.strip()
    config = json.loads(clone.dev("kubectl", "config", "view", "--minify", "--raw", "-o", "json").stdout)
    config["users"][0]["user"] = {"token": token}
    file = clone.root / "kured.kubeconfig"
    file.write_text(json.dumps(config))
    return clone.dev("kubectl", f"--kubeconfig={file}", *arguments)


def daemon_set(clone):
    return clone.kubectl("get", *KURED)


def take_away(clone, role):
    """Take the lock, have the server's load balancer send elsewhere, and drain it."""
    node, server = cluster_state.PREFIX + role, clone.server_ids()[role]
    lock = {"nodeID": node, "metadata": {"unschedulable": False}, "TTL": 0}
    kured(clone, node, "annotate", *KURED, f"{LOCK}={json.dumps(lock)}")
    kured(clone, node, "label", "node", node, f"{EXCLUDED}=rebooting", "--overwrite")
    drain = ("drain", node, "--force", "--delete-emptydir-data", "--ignore-daemonsets")
    kured(clone, node, *drain, f"--timeout={SECONDS}s")
    eventually(lambda: server not in targets(clone), 60, f"the load balancer sends nothing to {role}")


def reboot(clone, role):
    """Reboot the server as a Pod of kured does that finds it needed; returns when its Node is ready again."""
    spec = daemon_set(clone)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (sentinel,) = [word for word in container["command"] if word.startswith("--reboot-sentinel=")]
    needed = f"test -f {sentinel.partition('=')[2]}"
    container |= {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", f"{needed} && {REBOOT}; sleep 1000"]}
    spec |= {
        "nodeName": cluster_state.PREFIX + role,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
    }
    name = {"name": f"kured-on-{role}", "namespace": "kube-system"}
    (clone.root / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": spec})
    )
    clone.dev("ssh", role, f"touch {NEEDED}")
    clone.dev("kubectl", "apply", "-f", "pod.json")
    # each boot recreates the folder
    eventually(
        lambda: cluster_state.shell(clone, role, f"test -e {NEEDED} || echo gone"),
        SECONDS,
        f"{role} boots again",
    )
    service = "k3s" if role == "control" else "k3s-agent"
    eventually(
        lambda: cluster_state.shell(clone, role, f"systemctl is-active {service}") is not None,
        SECONDS,
        f"k3s runs again on {role}",
    )
    eventually(lambda: cluster_state.asked(clone, "get", "namespaces"), SECONDS, "the API answers")
    clone.dev("kubectl", "delete", "-f", "pod.json", "--now")
    eventually(
        lambda: node_state(clone.nodes()[cluster_state.PREFIX + role]).ready, SECONDS, f"{role} is ready"
    )


def give_back(clone, role):
    """Have it take Pods and traffic again, and release the lock."""
    node = cluster_state.PREFIX + role
    kured(clone, node, "uncordon", node)
    kured(clone, node, "label", "node", node, f"{EXCLUDED}=false", "--overwrite")
    kured(clone, node, "annotate", *KURED, f"{LOCK}-")


@pytest.fixture(scope="module")
def upgraded(clone, kubernetes_version):
    apart = {"podSecurity": "baseline", "taintControlServers": True, "podsReachMetadata": False}
    clone.configure(osUpgrades=WINDOW, workerCount=2, **apart)
    clone.dev("up", "--kubernetes", kubernetes_version)
    return clone


def test_a_pod_gets_nothing_of_its_server(upgraded):
    """The settings that keep tenants apart, in an environment that has a reason of its own to be there."""
    taints = upgraded.nodes()[cluster_state.PREFIX + "control"]["spec"]["taints"]
    assert {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"} in taints

    def start(name, privileged):
        # curl: busybox's wget crashes with a timeout, whether the service answers or not
        command = "curl -s --max-time 5 http://169.254.169.254/hetzner/v1/metadata || echo closed; sleep 1000"
        container = {"name": "x", "image": toolbox.NAME, "command": ["sh", "-c", command]}
        spec = {"containers": [container | {"securityContext": {"privileged": privileged}}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        (upgraded.root / "pod.json").write_text(json.dumps(pod))
        return upgraded.dev("kubectl", "apply", "-f", "pod.json", check=False).stdout

    assert "violates PodSecurity" in start("privileged", privileged=True)
    start("plain", privileged=False)
    said = eventually(
        lambda: upgraded.dev("kubectl", "logs", "plain", check=False).stdout.strip().endswith("closed"),
        SECONDS,
        "the Pod is refused the metadata service",
    )
    assert said
    upgraded.dev("kubectl", "delete", "pod", "plain", "--now")


def test_what_upgrades_need_is_there(upgraded):
    eventually(
        lambda: daemon_set(upgraded)["status"].get("currentNumberScheduled") == len(ROLES),
        60,
        "a Pod of kured for the control server and for each worker",
    )
    for role in ROLES:
        said = upgraded.dev("ssh", role, "cat /etc/apt/apt.conf.d/99-ccm-from-scratch").stdout
        assert 'APT::Periodic::Unattended-Upgrade "1";' in said


def test_reboots_of_all_servers_lose_no_request(upgraded):
    url = workload.deploy(upgraded)
    workload.spread(upgraded)
    upgraded.settle()
    sent_to = targets(upgraded)
    with ReadyWatch(upgraded.site.kubeconfig) as watch, ServiceClient(url) as client:
        for role in ROLES:
            take_away(upgraded, role)
            if role == "worker-1":
                before = daemon_set(upgraded)["metadata"]["annotations"][LOCK]
                again = upgraded.dev("up").stdout
                assert not cluster_state.changed(again), again
                assert daemon_set(upgraded)["metadata"]["annotations"][LOCK] == before
                assert upgraded.nodes()[cluster_state.PREFIX + role]["spec"]["unschedulable"]
            reboot(upgraded, role)
            give_back(upgraded, role)
            eventually(lambda: targets(upgraded) == sent_to, 60, f"the load balancer sends to {role} again")
    print(f"rebooted: {len(client.lost)} of {len(client.calls)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    assert watch.least


def test_without_the_setting_nothing_of_it_is_left(upgraded):
    upgraded.configure(osUpgrades={})
    upgraded.dev("up")
    eventually(lambda: upgraded.dev("kubectl", "get", *KURED, check=False).returncode, 60, "no kured")
    assert "nothing is left of site" in upgraded.dev("down").stdout
