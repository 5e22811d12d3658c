import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from monitoring_kinds import CRDS, GROUP, definitions
from prometheus_client import CollectorRegistry
from test_chart import CHART, IMAGE, NAME, OFFICIAL

from ccm.cloud.load_balancers import ServiceView
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.official_metrics import MetricsServer, OfficialMetrics
from k3s_standin.api import ApiClient, ApiError
from sandbox.kubernetes.controlplane import ControlPlane
from tests import prometheus_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # Helm may have to be built

BOTH = "--set=monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true"
KINDS = [f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in ("PodMonitor", "ServiceMonitor")]


def learn(api: ApiClient, kinds: Sequence[dict[str, Any]]) -> None:
    """The API server gets the operator's kinds, and serves them."""
    for definition in kinds:
        api.request("POST", CRDS, definition)
    wanted = {definition["spec"]["names"]["plural"] for definition in kinds}
    end = time.monotonic() + 60
    while wanted - {one["name"] for one in (api.get(GROUP) or {}).get("resources", [])}:
        assert time.monotonic() < end, "the API server does not serve the new kinds"
        time.sleep(0.2)  # looks again until then


def posted(api: ApiClient, item: dict[str, Any], namespace: str = "kube-system") -> dict[str, Any]:
    """An object as the API server would keep it; unknown fields are an error."""
    path = f"{GROUP}/namespaces/{namespace}/{item['kind'].lower()}s"
    return api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)


async def test_the_operator_understands_them(cluster: ControlPlane, helm, render) -> None:
    api = cluster.api()
    await asyncio.to_thread(learn, api, definitions("podmonitors", "servicemonitors"))
    for given in ([BOTH], [f"--values={OFFICIAL}", BOTH]):
        objects = render(*given, *KINDS)
        monitors = [item for name, item in objects.items() if "Monitor/" in name]
        assert [item["kind"] for item in monitors] == ["PodMonitor", "ServiceMonitor"]
        for item in monitors:
            kept = await asyncio.to_thread(posted, api, item)
            assert kept["spec"].items() >= item["spec"].items()
    wrong = {**item, "spec": {**item["spec"], "endpoint": []}}
    with pytest.raises(ApiError, match=r"unknown field \\?\"spec.endpoint"):
        await asyncio.to_thread(posted, api, wrong)

    # Helm asks the cluster which kinds it knows
    access = [f"--kubeconfig={cluster.kubeconfig}", "--namespace=kube-system"]
    await asyncio.to_thread(helm, "install", "ours", CHART, IMAGE, BOTH, *access)
    for plural in ("podmonitors", "servicemonitors"):
        path = f"{GROUP}/namespaces/kube-system/{plural}"
        (item,) = (await asyncio.to_thread(api.get, path))["items"]
        assert item["metadata"]["name"] == NAME
    headless = "/api/v1/namespaces/kube-system/services/hcloud-cloud-controller-manager-metrics"
    assert (await asyncio.to_thread(api.get, headless))["spec"]["clusterIP"] == "None"


def test_a_service_monitor_finds_the_pods_by_a_service(render) -> None:
    objects = render(BOTH, *KINDS, "--set=monitoring.address=:9000")
    monitor = objects[f"ServiceMonitor/{NAME}"]
    service = objects[f"Service/{NAME}-metrics"]
    pod = objects[f"Deployment/{NAME}"]["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 9000, "targetPort": "metrics"}]
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "honorLabels": True}]


@pytest.mark.parametrize(("kind", "endpoints"), [("Pod", "podMetricsEndpoints"), ("Service", "endpoints")])
async def test_metrics_about_a_service_name_that_service(
    render, tmp_path: Path, kind: str, endpoints: str
) -> None:
    """The operator's labels of a target have the names that some metrics use, too."""
    (endpoint,) = render(BOTH, *KINDS)[f"{kind}Monitor/{NAME}"]["spec"][endpoints]
    registry = CollectorRegistry()
    metrics = LoadBalancerMetrics(registry, OfficialMetrics(registry))
    for namespace, name in (("shop", "web"), ("blog", "api")):
        metrics.saw(ServiceView(namespace, name, f"uid-{name}"), Counter(unhealthy=2))
    server = MetricsServer(registry, "127.0.0.1:0")
    await server.start()
    # https://github.com/prometheus-operator/prometheus-operator/blob/main/pkg/prometheus/promcfg.go
    pod = {"namespace": "kube-system", "pod": "ccm-0", "container": "ccm", "endpoint": "metrics"}
    labels = pod | ({"service": "hcloud-cloud-controller-manager-metrics"} if kind == "Service" else {})
    scrape = {
        "job_name": "kube-system/hcloud-cloud-controller-manager",
        "honor_labels": endpoint.get("honorLabels", False),
        "static_configs": [{"targets": [f"127.0.0.1:{server.port}"], "labels": labels}],
    }
    content = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (group,) = yaml.safe_load((CHART / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    (alert,) = (one for one in group["rules"] if one["alert"] == "HetznerCCMLoadBalancerWithoutTargets")
    binaries = prometheus_server.programs()
    async with prometheus_server.run(binaries, tmp_path / "prometheus.yml", tmp_path) as prometheus:
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not found:
                await asyncio.sleep(0.2)  # looks again until then
                found = await prometheus.query(alert["expr"])
    await server.close()
    services = {(one["metric"]["namespace"], one["metric"]["service"]) for one in found}
    assert services == {("shop", "web"), ("blog", "api")}


def test_no_monitor_without_the_operator_or_without_metrics(render) -> None:
    assert not [name for name in render(BOTH) if "Monitor" in name or name.startswith("Service/")]
    off = render(BOTH, "--set=monitoring.enabled=false", *KINDS)
    assert not [name for name in off if "Monitor" in name or name.startswith("Service/")]


def test_metrics_that_only_the_node_reaches_are_not_to_be_monitored(helm) -> None:
    given = ["--set=monitoring.address=127.0.0.1:8233", BOTH]
    done = helm("template", "ours", CHART, IMAGE, *given, *KINDS, check=False)
    assert done.returncode != 0
    assert (
        "monitoring.podMonitor: only its own node reaches monitoring.address, 127.0.0.1:8233" in done.stderr
    )
