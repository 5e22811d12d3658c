"""What a user runs in the cluster: two replicas with a budget behind a load balancer."""

from tests.e2e.conftest import Clone, eventually
from tests.e2e.looks import answers, load_balancer_ip

SECONDS = 120.0
SPREAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
      containers:
        - name: web
"""
"""Two replicas on two workers, without what their container runs."""
MANIFEST = (
    SPREAD
    + """          image: docker.io/traefik/whoami:v1.11.0
          imagePullPolicy: IfNotPresent
          env: [{name: WHOAMI_PORT_NUMBER, value: "8080"}]
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
          # clients still connect while endpoints are being removed
          lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {load-balancer.hetzner.cloud/location: fsn1}}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""
)


def deploy(clone: Clone) -> str:
    """Have it run; its URL, at which it answers through its load balancer."""
    (clone.root / "workload.yaml").write_text(MANIFEST)
    clone.dev("kubectl", "apply", "-f", "workload.yaml")
    clone.dev("kubectl", "rollout", "status", "deployment/web", f"--timeout={SECONDS:.0f}s")
    address = eventually(lambda: load_balancer_ip(clone, "service/web"), SECONDS, "an address")
    url = f"http://{address}/"
    eventually(lambda: answers(url), SECONDS, "an answer through the load balancer")
    return url


def spread(clone: Clone) -> None:
    """Put its Pods on two Nodes, so that the loss of one Node leaves a Pod."""
    pods = clone.kubectl("get", "pods", "--selector=app=web")["items"]
    if len({pod["spec"].get("nodeName") for pod in pods}) < len(pods):
        clone.dev("kubectl", "rollout", "restart", "deployment/web")
        clone.dev("kubectl", "rollout", "status", "deployment/web", f"--timeout={SECONDS:.0f}s")
