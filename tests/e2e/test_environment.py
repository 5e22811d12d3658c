import json
import os
import platform
import re
import signal
import socket
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import contextmanager

import pytest
import yaml

from image import recipe
from image.errors import MirrorError
from image.layer import make_layer
from image.oci import describe, index_of
from image.platforms import of_machine
from image.registry import Target, push
from image.tree import File
from release.tested import RAN
from sandbox.errors import MissingRequirement
from sandbox.kubernetes import releases, toolchain
from sandbox.kubernetes.archive import ContainerImage, write_archive
from sandbox.kubernetes.components import CRANE, KUBERNETES_TESTS
from sandbox.kubernetes_tests import images
from sandbox.kubernetes_tests.selection import LIMITS, plain
from sandbox.site import cache_directory
from tests.e2e import another_program, chart_upgrade, drift
from tests.e2e.conftest import eventually
from tests.e2e.looks import (
    addresses,
    balancers,
    first_line,
    http_get,
    internal,
    load_balancer_ip,
    nothing_to_do,
    public_address,
    ready,
    routes,
    run_on,
    taints,
)
from tests.prepared import missing

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


@pytest.mark.smoke
def test_every_node_is_ready_and_known_by_its_server(environment):
    servers = {s["name"]: s for s in environment.api("/servers")["servers"]}
    nodes = environment.nodes()
    assert len(nodes) == 3
    assert nodes.keys() == servers.keys()
    for name, node in nodes.items():
        server, labels = servers[name], node["metadata"]["labels"]
        assert node["spec"]["providerID"] == f"ccm-from-scratch://{server['id']}"
        assert UNINITIALIZED not in taints(node)
        assert ready(node)
        assert ("ExternalIP", server["public_net"]["ipv4"]["ip"]) in addresses(node)
        assert ("InternalIP", server["private_net"][0]["ip"]) in addresses(node)
        assert labels["topology.kubernetes.io/region"] == server["location"]["network_zone"]
        assert labels["topology.kubernetes.io/zone"] == server["location"]["name"]
        assert labels["node.kubernetes.io/instance-type"] == server["server_type"]["name"]


def test_the_run_says_which_versions_it_has(environment, kubernetes_version, record_property):
    server = environment.kubectl("version")["serverVersion"]["gitVersion"]
    assert server == f"v{kubernetes_version}"
    nodes = [node["status"]["nodeInfo"] for node in environment.nodes().values()]
    assert {node["kubeletVersion"] for node in nodes} == {server}  # genuine k3s adds +k3s1
    ccm = ("-n", "kube-system", "exec", "deployment/ccm-from-scratch", "--")
    python = environment.dev("kubectl", *ccm, f"/{recipe.PROGRAM}", "--version").stdout
    record_property(f"{RAN}Kubernetes", server.removeprefix("v"))
    record_property(f"{RAN}containerd", nodes[0]["containerRuntimeVersion"].removeprefix("containerd://"))
    record_property(f"{RAN}Python in the image", python.split()[-1])


def test_what_a_person_sees_names_every_node_and_what_to_type_next(environment):
    for name in environment.nodes():
        assert name in environment.said
    assert "./dev down" in environment.said


def ccm_pod(environment):
    chosen = ("-l", "app.kubernetes.io/name=ccm-from-scratch")
    (pod,) = environment.kubectl("-n", "kube-system", "get", "pods", *chosen)["items"]
    return pod


@pytest.mark.smoke
def test_up_again_changes_nothing(environment):
    environment.settle()
    before = environment.writes()
    said = environment.pulumi("up", "--stack", "local", "--yes", "--skip-preview").stdout
    assert re.search(r"\d+ unchanged", said)
    assert not re.search(r"\d+ (created|updated|deleted|replaced)", said)
    assert environment.writes() == before


def test_the_secrets_of_the_environment_are_not_in_what_is_printed_or_kept_in_plain_text(environment):
    token = environment.site.token
    state = environment.pulumi("stack", "export", "--stack", "local").stdout
    assert token not in environment.said
    assert token not in state
    assert "PRIVATE KEY" not in state


@pytest.mark.smoke
def test_pods_of_different_nodes_meet_by_the_clouds_routes(environment):
    nodes = environment.nodes()
    wanted = {node["spec"]["podCIDR"]: internal(node) for node in nodes.values()}
    eventually(lambda: routes(environment) == wanted, 60, "a route for every node")
    for node in environment.nodes().values():
        (condition,) = [c for c in node["status"]["conditions"] if c["type"] == "NetworkUnavailable"]
        assert condition["status"] == "False"
    environment.dev("kubectl", "apply", "-f", "manifests/examples/service.yaml")
    environment.dev("kubectl", "rollout", "status", "deployment/whoami", "--timeout=60s")
    pods = environment.kubectl("get", "pods", "-l", "app=whoami")["items"]
    for pod in pods:
        for machine in ("control", "worker-1", "worker-2"):
            ask = f"curl -sS -m 5 http://{pod['status']['podIP']}:8080/"
            said = environment.dev("ssh", machine, ask).stdout
            assert f"Hostname: {pod['metadata']['name']}" in said


@pytest.mark.smoke
def test_a_service_gets_a_load_balancer_that_spreads_traffic(environment):
    ip = eventually(lambda: load_balancer_ip(environment, "service/whoami"), 60, "an EXTERNAL-IP")
    (load_balancer,) = balancers(environment)
    assert public_address(load_balancer) == ip
    assert len(load_balancer["targets"]) == 3
    listed = environment.kubectl("get", "pods", "-l", "app=whoami")["items"]
    pods = {pod["metadata"]["name"] for pod in listed}
    seen = set()

    def all_pods_answered():
        answer = http_get(f"http://{ip}/")
        seen.update(line.removeprefix("Hostname: ") for line in (answer or "").splitlines()[:1])
        return seen == pods

    eventually(all_pods_answered, 60, "an answer of every Pod through the load balancer")


@pytest.mark.parametrize("private", ["true", "false"])
def test_a_load_balancer_reaches_its_targets_at_either_address(environment, private):
    name = f"targets-private-{private}"
    annotation = f"load-balancer.hetzner.cloud/use-private-ip={private}"
    environment.dev("kubectl", "create", "service", "loadbalancer", name, "--tcp=80:8080")
    environment.dev(
        "kubectl", "annotate", "service", name, "load-balancer.hetzner.cloud/location=fsn1", annotation
    )
    environment.dev("kubectl", "set", "selector", "service", name, "app=whoami")
    ip = eventually(lambda: load_balancer_ip(environment, f"service/{name}"), 60, "an EXTERNAL-IP")

    def targets():
        return next(one["targets"] for one in balancers(environment) if public_address(one) == ip)

    def healthy():
        states = [status["status"] for target in targets() for status in target["health_status"]]
        # the annotation may come after the first targets, which are then replaced one after the other
        either = {str(target["use_private_ip"]).lower() for target in targets()}
        return len(states) == 3 and set(states) == {"healthy"} and either == {private}

    eventually(healthy, 60, "three healthy targets at the address that was asked for")
    assert "Hostname: " in eventually(lambda: http_get(f"http://{ip}/"), 60, "an answer")
    environment.dev("kubectl", "delete", "service", name)
    eventually(lambda: len(balancers(environment)) == 1, 60, "its deletion")


@pytest.mark.nightly
def test_an_image_of_ones_own_runs_on_every_machine(environment, tmp_path):
    archive = tmp_path / "mine.tar"
    programs = toolchain.find(environment.site.cache)
    mine = ContainerImage("mine:1", {"/whoami": programs.bin / "whoami"}, ["/whoami"], "65532:65532")
    write_archive(mine, archive)
    said = environment.dev("load", str(archive)).stdout
    assert "docker.io/library/mine:1 on all machines" in said
    for name in environment.nodes():
        run_on(environment, name, "mine:1")


@pytest.mark.nightly
def test_an_image_that_is_pushed_runs_under_the_name_that_it_has_on_docker_hub(environment):
    program = File((toolchain.find(environment.site.cache).bin / "whoami").read_bytes(), executable=True)
    own = of_machine(platform.machine())
    settings = {"Entrypoint": ["/whoami"], "User": "65532:65532"}
    image = describe(own, [make_layer({"whoami": program}, 0)], settings, {}, 0)
    target = Target(environment.site.address.registry, "pushed", "1")
    crane = toolchain.ensure(environment.site.cache, print, [CRANE]).bin / "crane"
    push(crane, target, index_of([image], {}), [image.manifest, *image.blobs])
    for name in environment.nodes():
        run_on(environment, name, "pushed:1")
    write = "curl -s -o /dev/null -w %{http_code} -X POST http://169.254.169.254/v2/pushed/blobs/uploads/"
    assert environment.dev("ssh", "worker-1", write).stdout == "403"


def test_an_event_says_why_an_image_that_is_nowhere_is_not_pulled(environment, tmp_path):
    reason = "the sandbox does not have this image, and machines can't reach the Internet"
    log = tmp_path / "log"

    def explained(events: str) -> bool:
        return any("Pod/nowhere" in line and reason in line for line in events.splitlines())

    with followed(environment, log, "logs", "--events"):
        eventually(lambda: "MESSAGE" in log.read_text(), 60, "what has happened so far")
        assert not explained(log.read_text())
        environment.dev("kubectl", "run", "nowhere", "--image=nowhere:1")
        eventually(lambda: explained(log.read_text()), 60, "an Event with the reason")
    assert explained(environment.dev("logs", "--events", "--no-follow").stdout)
    environment.dev("kubectl", "delete", "pod", "nowhere", "--now")


@contextmanager
def followed(environment, log, *arguments):
    """A command that goes on until Ctrl-C, and then ends; what it prints is in a file."""
    with log.open("wb") as file:
        running = subprocess.Popen(
            ["./dev", *arguments], cwd=environment.root, stdout=file, stderr=file, start_new_session=True
        )
        try:
            yield running
        finally:
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does
            running.wait(60)


PROGRAM = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline())
socketserver.ThreadingTCPServer(("", 8080), Echo).serve_forever()
"""
ECHO = """
apiVersion: v1
kind: Pod
metadata: {name: echo, labels: {app: echo}}
spec: {tolerations: [{operator: Exists}]}
---
apiVersion: v1
kind: Service
metadata: {name: echo, annotations: {load-balancer.hetzner.cloud/uses-proxyprotocol: "true"}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {app: echo}
  ports: [{port: 80, targetPort: 8080}]
"""


def test_pods_learn_the_clients_address_by_the_proxy_protocol(environment, tmp_path):
    """What Kubernetes' own test wants of externalTrafficPolicy: Local, which a load balancer alone can't."""
    # The CCM's image has Python, and no other machine has that image.
    ccm = ccm_pod(environment)["spec"]
    pod, service = yaml.safe_load_all(ECHO)
    own = {"image": ccm["containers"][0]["image"], "command": [f"/{recipe.PROGRAM}", "-c", PROGRAM]}
    pod["spec"] |= {"nodeName": ccm["nodeName"], "containers": [{"name": "echo", **own}]}
    (tmp_path / "echo.yaml").write_text(yaml.safe_dump_all([pod, service]))
    environment.dev("kubectl", "apply", "-f", str(tmp_path / "echo.yaml"))
    ip = eventually(lambda: load_balancer_ip(environment, "service/echo"), 60, "an EXTERNAL-IP")
    ours, said = eventually(lambda: first_line(ip), 60, "an answer")
    assert said.split()[:4] == ["PROXY", "TCP4", ours, ip]
    environment.dev("kubectl", "delete", "-f", str(tmp_path / "echo.yaml"), "--now")


@pytest.mark.nightly
@pytest.mark.timeout(3000)  # where they are not in the cache, they are built
def test_kubernetes_own_tests_pass(environment, kubernetes_version, tmp_path):
    if kubernetes_version != releases.default():
        refused = environment.dev("conformance", check=False).stdout
        assert f"this cluster runs {kubernetes_version}" in refused
        return
    have_kubernetes_tests()
    said = environment.dev("conformance", "--output", str(tmp_path), seconds=2900).stdout
    cases = ET.parse(tmp_path / "junit.xml").getroot().iterfind("testsuite/testcase")
    states = Counter(case.get("status") for case in cases if case.get("name").startswith("[It] "))
    assert states["passed"] == 41, said
    (suite,) = json.loads((tmp_path / "report.json").read_text())
    counted = Counter(spec["State"] for spec in suite["SpecReports"] if spec["LeafNodeType"] == "It")
    assert counted == states
    assert re.search(r"^all +41 +41 +0 +10 ", said, re.MULTILINE), said
    skipped = {plain(line) for line in said.splitlines() if line.startswith("  [")}
    assert skipped == set(LIMITS)
    assert all(words in said for words in set(LIMITS.values()))


def have_kubernetes_tests():
    """Make Kubernetes' own tests and their images where the cache has none."""
    cache = cache_directory(os.environ)
    try:
        programs = toolchain.ensure(cache, print, [KUBERNETES_TESTS])
        images.ensure(cache, (programs.bin, toolchain.ensure(cache, print).bin), large=False, progress=print)
    except MissingRequirement as error:  # no Debian packages for this processor
        pytest.skip(str(error))
    except MirrorError as error:
        missing(f"Kubernetes' own tests can't be had here: {error}")


STORED = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  selector: {matchLabels: {app: busy}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: busy
          image: docker.io/rancher/mirrored-library-busybox:1.37.0
          imagePullPolicy: IfNotPresent
          command: [sh, -c, "echo started >> /data/log; while :; do :; done"]
          resources: {requests: {cpu: 10m}, limits: {cpu: 50m}}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


def test_what_a_pod_writes_to_a_claim_of_the_default_class_outlives_it(environment, tmp_path):
    def log():
        shown = ("kubectl", "exec", "deployment/busy", "--", "cat", "/data/log")
        return environment.dev(*shown, check=False).stdout.split()

    (tmp_path / "stored.yaml").write_text(STORED)
    environment.dev("kubectl", "apply", "-f", str(tmp_path / "stored.yaml"))
    environment.dev("kubectl", "rollout", "status", "deployment/busy", "--timeout=60s")
    eventually(lambda: log() == ["started"], 60, "what the first Pod writes")  # it runs before it has
    environment.dev("kubectl", "rollout", "restart", "deployment/busy")
    environment.dev("kubectl", "rollout", "status", "deployment/busy", "--timeout=60s")
    eventually(lambda: log() == ["started", "started"], 60, "both lines")
    claim = environment.kubectl("get", "pvc", "data")
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "local-path")


def test_the_load_of_nodes_and_pods_is_known_and_scales(environment):
    environment.dev("kubectl", "autoscale", "deployment", "busy", "--cpu=1%", "--min=1", "--max=2")

    def load(what):
        done = environment.dev("kubectl", "top", what, "--no-headers", check=False)
        return {} if done.returncode else {line.split()[0]: line for line in done.stdout.splitlines()}

    eventually(lambda: load("nodes").keys() == environment.nodes().keys(), 90, "the load of every node")
    eventually(lambda: any(name.startswith("busy-") for name in load("pods")), 90, "the load of the Pod")

    def wanted():
        return environment.kubectl("get", "hpa", "busy")["status"].get("desiredReplicas")

    eventually(lambda: wanted() == 2, 90, "more Pods for so much load")
    for what in ("hpa/busy", "deployment/busy", "pvc/data"):
        environment.dev("kubectl", "delete", what, "--wait=false")
    eventually(lambda: not environment.kubectl("get", "pv")["items"], 60, "the end of its volume")


DENY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {matchLabels: {app: whoami}}, policyTypes: [Ingress]}
"""
CONNECT = (
    "for n in $(ip -o netns | cut -d' ' -f1); do ip netns exec $n curl -sS -m 5 {url} 2>&1 || true; done"
)


def test_a_network_policy_is_felt_on_the_same_node_and_from_others_and_gone_with_it(environment, tmp_path):
    pods = {
        pod["spec"]["nodeName"].rpartition("ccm-from-scratch-")[2]: f"http://{pod['status']['podIP']}:8080/"
        for pod in environment.kubectl("get", "pods", "-l", "app=whoami")["items"]
    }
    assert len(pods) == 2
    machine, near = next(iter(pods.items()))
    placed = json.dumps({"spec": {"nodeName": f"ccm-from-scratch-{machine}"}})
    beside_it = ("kubectl", "run", "beside", "--image=docker.io/traefik/whoami:v1.11.0")
    environment.dev(*beside_it, f"--overrides={placed}")
    environment.dev("kubectl", "wait", "--for=condition=Ready", "pod/beside", "--timeout=60s")

    def answers():
        """How many of the Pods on the first Pod's node, itself among them, are answered by either."""
        commands = [CONNECT.format(url=url) for url in pods.values()]
        said = environment.dev("ssh", machine, "; echo next; ".join(commands)).stdout.split("next")
        return [text.count("Hostname: ") for text in said]

    beside, beyond = answers()
    assert beside == beyond >= 2
    (tmp_path / "deny.yaml").write_text(DENY)
    environment.dev("kubectl", "apply", "-f", str(tmp_path / "deny.yaml"))
    eventually(lambda: answers() == [1, 0], 60, "a Pod answers only itself")
    assert "Hostname: " in environment.dev("ssh", machine, f"curl -sS -m 5 {near}").stdout, "its own node"
    environment.dev("kubectl", "delete", "networkpolicy", "deny")
    eventually(lambda: answers() == [beside, beyond], 60, "all are answered again")
    environment.dev("kubectl", "delete", "pod", "beside", "--now")


def test_the_ccm_of_the_tree_takes_the_place_of_the_clusters_and_gives_it_back(environment, tmp_path):
    deployment, lease = (
        ("-n", "kube-system", "get", what)
        for what in ("deployment/ccm-from-scratch", "lease/cloud-controller-manager")
    )

    def replicas():
        return environment.kubectl(*deployment)["status"].get("readyReplicas", 0)

    def leads_here():
        return socket.gethostname() in environment.kubectl(*lease)["spec"].get("holderIdentity", "")

    with (tmp_path / "log").open("ab") as log:
        command = ["./dev", "run", "--debug"]
        with subprocess.Popen(command, cwd=environment.root, stdout=log, stderr=log) as running:
            try:
                eventually(leads_here, 120, "the CCM on this host leads")
                assert replicas() == 0
                assert "is already running" in environment.dev("run", check=False).stdout
                assert "another terminal" in environment.dev("deploy", check=False).stdout
            finally:
                running.kill()  # nothing can be undone now
    assert environment.site.token not in (tmp_path / "log").read_text(encoding="utf-8")
    assert "the CCM in the cluster runs again" in environment.dev("deploy").stdout
    eventually(lambda: replicas() == 1, 60, "the CCM in the cluster")
    assert not leads_here()


@pytest.mark.nightly
def test_a_change_of_the_ccm_is_rolled_out_as_soon_as_it_is_saved(environment, tmp_path):
    log, file = tmp_path / "log", environment.root / "ccm/__init__.py"
    before = file.read_text()
    ask = ("-n", "kube-system", "exec", "deployment/ccm-from-scratch", "--", f"/{recipe.PROGRAM}", "-c")

    def runs(change):
        asked = environment.dev("kubectl", *ask, "import ccm; print(ccm.CHANGE)", check=False)
        return asked.stdout.strip() == change

    def waits():
        return log.read_text().count("waiting for a change")

    with followed(environment, log, "deploy", "--watch"):
        eventually(lambda: waits() == 1, 60, "the end of the first look")
        assert "nothing to roll out" in log.read_text()
        file.write_text(f"{before}CHANGE = (\n")
        eventually(lambda: waits() == 2, 60, "the end of the second one")
        assert "ccm/__init__.py, line 2: " in log.read_text()
        for change in ("first", "second"):
            file.write_text(f"{before}CHANGE = {change!r}\n")
            eventually(lambda change=change: runs(change), 120, f"the {change} change in the cluster")
        # it is interrupted while it waits
        eventually(lambda: "waiting for a change" in log.read_text().rstrip().splitlines()[-1], 60, "the end")
    assert "Traceback" not in log.read_text()
    pod = ccm_pod(environment)
    listing = "k3s ctr images ls -q 'labels.\"io.cri-containerd.pinned\"==pinned' 2>/dev/null"
    kept = environment.dev("ssh", "control", f"{listing} | grep /ccm-from-scratch:").stdout.split()
    assert kept == [pod["spec"]["containers"][0]["image"]], "the kubelet may remove those of former changes"


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # Helm may be built first
def test_helm_upgrades_the_official_release_and_changes_nothing_else(environment, tmp_path):
    chart_upgrade.changes_nothing_else(environment, tmp_path)


@pytest.mark.nightly
def test_another_program_makes_a_cluster_of_the_components(environment, kubernetes_version, tmp_path):
    another_program.makes_a_cluster(environment, kubernetes_version, tmp_path)


def test_a_machine_that_is_off_is_tainted_and_recovers(environment):
    name, server = worker(environment)
    environment.api(f"/servers/{server['id']}/actions/poweroff", {})
    eventually(lambda: SHUTDOWN in taints(environment.nodes()[name]), 120, "shutdown taint")
    environment.api(f"/servers/{server['id']}/actions/poweron", {})
    # the taint goes while the server boots; until then it is locked, and may be Ready from before
    eventually(lambda: not dict([worker(environment)])[name]["locked"], 120, "the server has started")
    eventually(
        lambda: ready(node := environment.nodes()[name]) and SHUTDOWN not in taints(node),
        120,
        "Ready, untainted",
    )


def test_up_repairs_what_was_changed_on_servers_and_replaces_none(environment):
    """One of each at once: a rebuilt server, a stopped unit, a missing file, a deleted Node and account."""
    servers = environment.server_ids()
    name, server = worker(environment)
    rebuilt = name.removeprefix("ccm-from-scratch-")
    other = next(role for role in servers if role.startswith("worker") and role != rebuilt)
    environment.dev("ssh", other, "systemctl disable --now k3s-agent; rm /etc/cni/net.d/10-native.conflist")
    environment.dev("kubectl", "delete", "node", f"ccm-from-scratch-{other}")
    account = ("--namespace=kube-system", "serviceaccount", "cloud-controller-manager")
    environment.dev("kubectl", "delete", *account)
    environment.api(f"/servers/{server['id']}/actions/rebuild", {"image": "debian-13"})
    eventually(lambda: environment.servers()[rebuilt]["status"] == "running", 60, "the server runs")
    environment.pulumi("up", "--stack", "local", "--yes", "--skip-preview")
    assert environment.dev("ssh", other, "systemctl is-enabled k3s-agent").stdout
    assert environment.server_ids() == servers
    assert len(environment.nodes()) == len(servers)
    # up waits for a kubelet, whose first status may be that it is not ready
    eventually(lambda: all(ready(node) for node in environment.nodes().values()), 60, "all Nodes are ready")
    nothing_to_do(environment)


@pytest.mark.nightly
@pytest.mark.timeout(drift.SECONDS)
def test_drift_is_gone_after_one_run(environment):
    drift.random_changes_are_repaired(environment)


def worker(environment):
    servers = {s["name"]: s for s in environment.api("/servers")["servers"]}
    return max((name, s) for name, s in servers.items() if "worker" in name)
