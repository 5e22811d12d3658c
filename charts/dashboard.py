"""Writes the dashboard for Grafana: ``python charts/dashboard.py``.

It is plain data in Grafana's JSON model for dashboards, always the same. A test compares the file with what
this makes, and another asks a real Prometheus, which has scraped a real run, each of its queries.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "ccm-from-scratch" / "monitoring" / "dashboard.json"
_WIDTH = 24  # of a page, in Grafana's columns
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of all that Prometheus knows, what this program's processes say; both are chosen on the dashboard.
_FROM = 'job=~"$job",instance=~"$instance"'
# Remaining shares of requests at which the alerts of docs/guides/operating.md start.
_QUOTA_STEPS = ((None, "red"), (0.02, "orange"), (0.1, "green"))
_HOURLY = "sum(rate({}{{@}}[$__rate_interval])) * 3600"
_ALARM_STEPS = ((None, "green"), (1, "red"))


@dataclass(frozen=True)
class Query:
    """One curve, or one for each of its labels' values.

    Attributes:
        expression: PromQL; ``@`` stands for the selectors of job and instance.
        legend: What it is called; ``{{label}}`` stands for a label's value.
    """

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        kind: ``timeseries`` for curves, ``stat`` for the present numbers.
        steps: The colors, each with the value from which on it is shown.
        text: Whether legends are shown instead of numbers.
        width: In columns, of 24.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    steps: tuple[tuple[float | None, str], ...] = ((None, "green"),)
    text: bool = False
    width: int = 8


def _stat(title: str, about: str, *queries: Query, **more: Any) -> Panel:
    return Panel(title, about, queries, kind="stat", **{"width": 4, **more})


def _rate(metric: str, by: str, *, times: str = "", only: str = "") -> Query:
    """How often something happens in a second, by labels that name the curves."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return Query(f"sum by ({by}) (rate({metric}{{@{only}}}[$__rate_interval])){times}", legend)


def _quantiles(metric: str, by: str = "", over: str = "$__rate_interval") -> tuple[Query, ...]:
    """The median and the slowest hundredth of a histogram."""
    legend = f" {{{{{by}}}}}" if by else ""
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({metric}_bucket{{@}}[{over}]))"
    return tuple(
        Query(f"histogram_quantile({quantile}, {buckets})", f"{name}{legend}")
        for quantile, name in (("0.5", "median"), ("0.99", "99 %"))
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Does it work?",
        (
            _stat(
                "Leaders",
                "Only one replica can be the leader. If leader election is disabled, the panel is empty.",
                Query("sum(leader_election_master_status{@})", "leaders"),
                steps=((None, "red"), (1, "green"), (2, "red")),
            ),
            _stat(
                "Requests left",
                "Remaining share of the hourly request quota of Hetzner's API. All tokens of a project share "
                "one quota.",
                Query("min(ccm_hetzner_api_quota_remaining{@} / ccm_hetzner_api_quota_limit{@})", "left"),
                unit="percentunit",
                steps=_QUOTA_STEPS,
            ),
            _stat(
                "Held back",
                "Actions that the CCM paused, because many cloud objects are missing. Check the cause.",
                Query("sum(ccm_node_lifecycle_deletions_paused{@})", "nodes"),
                Query("sum(ccm_route_deletions_paused{@})", "routes"),
                Query("sum(ccm_hetzner_load_balancers_vanished{@})", "load balancers"),
                steps=_ALARM_STEPS,
                width=6,
            ),
            _stat(
                "Orphans",
                "Cloud objects of deleted Services. Hetzner continues to charge for load balancers.",
                Query("sum(ccm_load_balancer_orphans{@})", "orphans"),
                steps=_ALARM_STEPS,
            ),
            _stat(
                "Version",
                "Version of each process.",
                Query("kubernetes_build_info{@}", "{{git_version}}"),
                text=True,
                width=6,
            ),
            Panel(
                "Readiness by check",
                "The value 0 means that the check fails. The log contains the reason. If Prometheus doesn't "
                "scrape /metrics/slis, the panel is empty.",
                (Query('min by (name) (kubernetes_healthcheck{@,type="readyz"})', "{{name}}"),),
                width=12,
            ),
            Panel(
                "Controllers that run",
                "Controllers that run on the leader. Other replicas run no controllers.",
                (Query("sum by (name) (running_managed_controllers{@})", "{{name}}"),),
                width=12,
            ),
        ),
    ),
    (
        "Hetzner's API",
        (
            Panel(
                "Requests per hour, by operation",
                "A project can send 3,600 requests per hour, unless Hetzner has raised the limit.",
                (_rate("ccm_hetzner_api_requests_total", "operation", times=" * 3600"),),
            ),
            Panel(
                "Errors per hour, by code",
                "Hetzner's error codes. The code no_answer means that there was no response.",
                (_rate("ccm_hetzner_api_requests_total", "code", times=" * 3600", only=',code!="ok"'),),
            ),
            Panel(
                "Quota",
                "Hetzner refills the quota continuously. All clients of the project share the quota.",
                (
                    Query("ccm_hetzner_api_quota_remaining{@}", "left, {{instance}}"),
                    Query("ccm_hetzner_api_quota_limit{@}", "limit, {{instance}}"),
                ),
            ),
            Panel(
                "Duration of requests",
                "Time until the response arrives.",
                _quantiles("hcloud_api_request_duration_seconds", "method"),
                unit="s",
            ),
            Panel(
                "Requests on their way",
                "Requests that have no response yet, including requests that wait for the quota.",
                (
                    Query("sum(hcloud_api_in_flight_requests{@})", "on their way"),
                    Query(
                        "sum(rate(ccm_hetzner_api_quota_wait_seconds_total{@}[$__rate_interval]))",
                        "waiting for the quota",
                    ),
                ),
            ),
            Panel(
                "Server lookups per second",
                'The result "hit" means that a cached list contained the server, so the CCM sent no request.',
                (_rate("cloud_controller_manager_server_cache_requests_total", "subsystem, result"),),
            ),
        ),
    ),
    (
        "Controllers",
        (
            Panel(
                "Keys that wait",
                "Keys that are in the queue of a controller.",
                (Query("sum by (name) (workqueue_depth{@})", "{{name}}"),),
            ),
            Panel("Keys added per second", "Rate of changes.", (_rate("workqueue_adds_total", "name"),)),
            Panel(
                "Retries per hour",
                "Retries of keys after failures. To find the reason, read the Events of the object that the "
                "key names.",
                (_rate("workqueue_retries_total", "name", times=" * 3600"),),
            ),
            Panel(
                "Duration of work on a key",
                "An action at Hetzner takes between a few seconds and three minutes.",
                _quantiles("workqueue_work_duration_seconds", "name"),
                unit="s",
            ),
            Panel(
                "Time that keys wait",
                "Time from a change of an object until the controller processes the object.",
                _quantiles("workqueue_queue_duration_seconds", "name"),
                unit="s",
            ),
            Panel(
                "Longest work now",
                "If processing a key takes more than ten minutes, the controller is stuck.",
                (Query("max by (name) (workqueue_longest_running_processor_seconds{@})", "{{name}}"),),
                unit="s",
            ),
        ),
    ),
    (
        "Nodes and routes",
        (
            Panel(
                "Time until a Node is initialized",
                "Time from the creation of a Node until its taint is removed and Pods can run on it.",
                _quantiles("node_controller_cloud_provider_taint_removal_delay_seconds", over="$__range"),
                unit="s",
            ),
            Panel(
                "Cloud requests about Nodes that aren't Ready",
                "With these requests, the CCM checks whether the servers of the Nodes still exist.",
                (_rate("cloud_node_lifecycle_controller_cloud_provider_calls_total", "operation, result"),),
            ),
            Panel(
                "Duration of one check of all Nodes",
                "Checks by the node lifecycle controller.",
                _quantiles("cloud_node_lifecycle_controller_monitor_nodes_duration_seconds"),
                unit="s",
            ),
            Panel(
                "Route syncs per hour, by outcome",
                'The outcome "noop" means that no route changed.',
                (_rate("route_controller_route_sync_total", "trigger, outcome", times=" * 3600"),),
                width=12,
            ),
            Panel(
                "Cloud operations of the controllers per hour",
                "The operations have the same names as in the official CCM.",
                (_rate("cloud_controller_manager_operations_total", "op", times=" * 3600"),),
                width=12,
            ),
        ),
    ),
    (
        "Load balancers",
        (
            Panel(
                "Targets by health",
                "According to Hetzner's health checks.",
                (Query("sum by (status) (ccm_hetzner_load_balancer_targets{@})", "{{status}}"),),
                width=6,
            ),
            Panel(
                "Unhealthy targets by Service",
                "With externalTrafficPolicy: Local, a node without Pods of the Service is unhealthy by "
                "design.",
                (
                    Query(
                        "sum by (namespace, service) "
                        '(ccm_hetzner_load_balancer_targets{@,status="unhealthy"}) > 0',
                        "{{namespace}}/{{service}}",
                    ),
                ),
                width=6,
            ),
            Panel(
                "Target updates per hour",
                "Updates of targets after nodes were added, removed or changed.",
                (
                    Query(_HOURLY.format("service_controller_loadbalancer_sync_total"), "all"),
                    Query(_HOURLY.format("service_controller_nodesync_error_total"), "failed"),
                ),
                width=6,
            ),
            Panel(
                "Duration of target updates",
                "Time to update the targets of one load balancer.",
                _quantiles("service_controller_update_loadbalancer_host_latency_seconds", over="$__range"),
                unit="s",
                width=6,
            ),
        ),
    ),
    (
        "The API server",
        (
            Panel(
                "Requests per second",
                "By method and status code. The code <error> means that there was no response.",
                (_rate("rest_client_requests_total", "method, code"),),
            ),
            Panel(
                "Duration of requests",
                "Time until the headers of the response arrive.",
                _quantiles("rest_client_request_duration_seconds", "verb"),
                unit="s",
            ),
            Panel(
                "Waiting for our own limit",
                "Time that requests wait because of --kube-api-qps and --kube-api-burst.",
                _quantiles("rest_client_rate_limiter_duration_seconds", "verb"),
                unit="s",
            ),
        ),
    ),
    (
        "Process",
        (
            Panel(
                "Memory",
                "Resident memory. The Helm chart sets the limit to 256 MiB.",
                (Query("process_resident_memory_bytes{@}", "{{instance}}"),),
                unit="bytes",
                width=6,
            ),
            Panel(
                "Processor",
                "Share of one core.",
                (Query("rate(process_cpu_seconds_total{@}[$__rate_interval])", "{{instance}}"),),
                unit="percentunit",
                width=6,
            ),
            Panel(
                "Open files",
                "Share of the process' limit.",
                (Query("process_open_fds{@} / process_max_fds{@}", "{{instance}}"),),
                unit="percentunit",
                width=6,
            ),
            Panel(
                "Starts in the last hour",
                "More than three starts mean that the process crashes repeatedly.",
                (Query("changes(process_start_time_seconds{@}[1h])", "{{instance}}"),),
                width=6,
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's JSON model, as one imports it."""
    return {
        "uid": "ccm-from-scratch",
        "title": "Hetzner cloud-controller-manager",
        "description": "Metrics of ccm-from-scratch. docs/guides/operating.md explains how to solve "
        "problems.",
        "tags": ["hetzner", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": [_alerts()]},
        "panels": list(_panels()),
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, selector in (("job", ""), ("instance", '{job=~"$job"}')):
        query = f"label_values(ccm_hetzner_api_quota_limit{selector}, {name})"
        yield {
            "name": name,
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": "variable"},
            "refresh": 2,  # whenever the time range changes
            "sort": 1,  # by name
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _SOURCE,
        "enable": True,
        "expr": 'ALERTS{alertname=~"HetznerCCM.*",alertstate="firing"}',
        "iconColor": "red",
        "titleFormat": "{{alertname}}",
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        top += 1
        for panel, place in _places(panels, top):
            number += 1
            top = max(top, place["y"] + place["h"])
            yield {"id": number, "gridPos": place, **_panel(panel)}


def _places(panels: Iterable[Panel], top: int) -> Iterator[tuple[Panel, dict[str, int]]]:
    """Each panel with its place: from left to right, and below where the line is full."""
    left, height = 0, 0
    for panel in panels:
        if left + panel.width > _WIDTH:
            left, top, height = 0, top + height, 0
        own = 4 if panel.kind == "stat" else 8
        yield panel, {"x": left, "y": top, "w": panel.width, "h": own}
        left, height = left + panel.width, max(height, own)


def _panel(panel: Panel) -> dict[str, Any]:
    steps = [{"color": color, "value": value} for value, color in panel.steps]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": _stat_options(panel) if panel.kind == "stat" else _CURVES,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression.replace("@", _FROM),
                "legendFormat": query.legend,
                "range": panel.kind != "stat",
                "instant": panel.kind == "stat",
            }
            for number, query in enumerate(panel.queries)
        ],
    }


_CURVES = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def _stat_options(panel: Panel) -> dict[str, Any]:
    return {
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "name" if panel.text else "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
