import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from process_world import Ccm, World
from test_process_nodes_and_routes import initialized
from test_process_services import PLACE, create, ingress, service

from tests import prometheus_server
from tests.prometheus_server import Prometheus

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),  # Prometheus may have to be built
]

TREE = Path(__file__).parents[2]
MONITORING = TREE / "charts" / "ccm-from-scratch" / "monitoring"
GUIDE = TREE / "docs" / "guides" / "operating.md"
TOKEN_IN_A_POD = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
# Whatever is chosen on the dashboard.
CHOSEN = {"$__rate_interval": "1m", "$__range": "5m", "$job": ".*", "$instance": ".*"}
# Nothing has gone wrong so far.
QUIET = {"Unhealthy targets by Service", "Errors per hour, by code"}


def examples() -> Iterator[Any]:
    section = (
        GUIDE.read_text(encoding="utf-8").partition("### Scraping with a token")[2].partition("\n## ")[0]
    )
    for block in re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        yield from yaml.safe_load_all(block)


async def account(world: World) -> str:
    """Prometheus' account with the guide's rights; returns a token."""
    role, binding, _ = examples()
    await world.kube("POST", "/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    accounts = "/api/v1/namespaces/monitoring/serviceaccounts"
    await world.kube("POST", accounts, {"metadata": {"name": "prometheus"}})
    await world.kube("POST", f"{ROLES}/clusterroles", role)
    await world.kube("POST", f"{ROLES}/clusterrolebindings", binding)
    wanted = {"spec": {"expirationSeconds": 3600}}
    return (await world.kube("POST", f"{accounts}/prometheus/token", wanted))["status"]["token"]


async def pod(world: World, ccm: Ccm) -> None:
    """The Pod of a process, as the cluster would know it."""
    deployment = yaml.safe_load((TREE / "manifests" / "deployment.yaml").read_text(encoding="utf-8"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    ports = [{"name": "https", "containerPort": ccm.port, "hostPort": ccm.port}]
    body = {
        "metadata": {"name": "ccm-0", "labels": labels},
        "spec": {
            "hostNetwork": True,
            "nodeName": "alpha",
            "containers": [{"name": "ccm", "image": "registry.example.com/ccm", "ports": ports}],
        },
    }
    pods = "/api/v1/namespaces/kube-system/pods"
    await world.kube("POST", pods, body)
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    status["containerStatuses"] = [
        {
            "name": "ccm",
            "image": "ccm",
            "imageID": "ccm",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
    ]
    kind = "application/strategic-merge-patch+json"
    await world.kube("PATCH", f"{pods}/ccm-0/status", {"status": status}, kind)


def configuration(world: World, token: str) -> Path:
    """The guide's configuration with what Prometheus has in a Pod, the alerts, and a shorter interval."""
    (world.directory / "prometheus-token").write_text(token, encoding="ascii")
    kubeconfig = json.loads(world.kubeconfig.read_text(encoding="utf-8"))
    kubeconfig["users"] = [{"name": "u", "user": {"token": token}}]
    (world.directory / "prometheus-kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
    *_, content = examples()
    for scrape in content["scrape_configs"]:
        assert scrape["authorization"] == {"credentials_file": TOKEN_IN_A_POD}
        scrape["authorization"] = {"credentials_file": str(world.directory / "prometheus-token")}
        scrape["kubernetes_sd_configs"] = [
            {**one, "kubeconfig_file": str(world.directory / "prometheus-kubeconfig")}
            for one in scrape["kubernetes_sd_configs"]
        ]
    content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    content["rule_files"] = [str(MONITORING / "rules.yaml")]
    path = world.directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def in_order_again() -> None:
    """All tests here look at one run; the world is put in order when it ends."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(world: World) -> AsyncIterator[Prometheus]:
    """One that has scraped a CCM which has nodes, routes, a load balancer, and a node that is not ready."""
    binaries = prometheus_server.programs()
    ccm = await world.start(environment=PLACE)
    await world.ready(ccm)
    for number, name in enumerate(("alpha", "beta"), 11):
        await world.machine(name, number)
        await world.node(name, initialized)
    await create(world, "web")
    await service(world, "web", ingress)
    await world.not_ready("beta")
    await pod(world, ccm)
    file = configuration(world, await account(world))
    data = world.directory / "prometheus"
    data.mkdir()
    async with prometheus_server.run(binaries, file, data) as running:
        asked = 'sum(cloud_node_lifecycle_controller_cloud_provider_calls_total{job="ccm-from-scratch"}) > 1'
        await world.eventually(lambda: running.query(asked), bool)
        checks = 'kubernetes_healthcheck{job="ccm-from-scratch"}'
        await world.eventually(lambda: running.query(checks), bool)
        yield running


def asked_by_the_dashboard() -> Iterator[tuple[str, str]]:
    """Title and query, for all panels, choices and marks."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], chosen(target["expr"])
    for variable in dashboard["templating"]["list"][1:]:
        query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        yield variable["name"], f"count by ({label}) ({chosen(query)})"
    for mark in dashboard["annotations"]["list"]:
        yield mark["name"], mark["expr"]


def chosen(expression: str) -> str:
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def asked_by_the_alerts() -> dict[str, str]:
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def metrics_in(parsed: Any) -> Iterator[str]:
    """The names of metrics in an expression that Prometheus has parsed."""
    if isinstance(parsed, dict):
        if parsed.get("type") in {"vectorSelector", "matrixSelector"}:
            yield parsed["name"]
        for value in parsed.values():
            yield from metrics_in(value)
    elif isinstance(parsed, list):
        for value in parsed:
            yield from metrics_in(value)


async def test_each_panel_shows_something(world: World, prometheus: Prometheus) -> None:
    for title, expression in asked_by_the_dashboard():
        if title in QUIET | {"Alerts"}:
            await prometheus.query(expression)
        else:
            await world.eventually(lambda expression=expression: prometheus.query(expression), bool)


async def test_no_alert_fires_where_all_is_well(world: World, prometheus: Prometheus) -> None:
    async def rules() -> dict[str, str]:
        (group,) = (await prometheus.api("rules"))["groups"]
        return {rule["name"]: f"{rule['health']} {rule.get('lastError', '')}" for rule in group["rules"]}

    await world.eventually(rules, lambda found: found == dict.fromkeys(asked_by_the_alerts(), "ok "))
    assert await prometheus.query('ALERTS{alertstate="firing"}') == []


async def test_each_metric_that_is_asked_for_is_there(prometheus: Prometheus) -> None:
    expressions = [expression for _, expression in asked_by_the_dashboard()]
    expressions += asked_by_the_alerts().values()
    parsed = [await prometheus.api("parse_query", query=expression) for expression in expressions]
    names = {name for one in parsed for name in metrics_in(one)} - {"ALERTS"}  # Prometheus' own
    assert len(names) > 30
    assert names - set(await prometheus.api("label/__name__/values")) == set()


async def test_a_refused_token_is_reported(world: World, prometheus: Prometheus) -> None:
    world.token_file.write_text("n" * 64, encoding="ascii")

    async def pending() -> set[str]:
        return {alert["labels"]["alertname"] for alert in (await prometheus.api("alerts"))["alerts"]}

    await world.eventually(pending, lambda names: names >= {"HetznerCCMTokenRefused", "HetznerCCMNotReady"})
    marks = await prometheus.query('ALERTS{alertname="HetznerCCMNotReady"}')
    assert {mark["metric"]["name"] for mark in marks} >= {"cloud-hcloud"}
