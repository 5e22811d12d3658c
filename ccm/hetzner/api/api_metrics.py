"""Metrics of the Hetzner Cloud API: first those of hcloud-go, then our own."""

import re

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ccm.hetzner.api.budget import Budget

_NOT_LETTERS = re.compile(r"[^a-z/_]+")
_CODE = re.compile(r"[a-z_]{1,50}|[0-9]{3}")
_LATENCY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15)


class ApiMetrics:
    """The metrics of requests, and of the budget."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "hcloud_api_requests_total",
            "A counter for requests to the hcloud api per endpoint.",
            ["code", "method", "api_endpoint"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "hcloud_api_in_flight_requests",
            "A gauge of in-flight requests to the hcloud api.",
            registry=registry,
        )
        self.duration = Histogram(
            "hcloud_api_request_duration_seconds",
            "A histogram of request latencies to the hcloud api.",
            ["method"],
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self.operations = Counter(
            "ccm_hetzner_api_requests_total",
            "Requests to the Hetzner Cloud API by operation and the API's error code (ok, not_found, ...).",
            ["operation", "code"],
            registry=registry,
        )
        self.remaining = Gauge(
            "ccm_hetzner_api_quota_remaining",
            "The number of requests that the project can send before the API rejects requests.",
            registry=registry,
        )
        self.limit = Gauge(
            "ccm_hetzner_api_quota_limit",
            "The number of requests that the project can send per hour.",
            registry=registry,
        )
        self.waited = Counter(
            "ccm_hetzner_api_quota_wait_seconds_total",
            "The time for which requests waited because the project's quota was exceeded.",
            registry=registry,
        )

    def watch(self, budget: Budget) -> None:
        """Export the budget at each scrape, even before the first request. Call this in the event loop."""
        self.remaining.set_function(lambda: budget.remaining)
        self.limit.set_function(lambda: budget.limit)


def code_label(code: str) -> str:
    """The API's error code, or ``odd`` for other texts, to limit the number of series."""
    return code if _CODE.fullmatch(code) else "odd"


def endpoint_label(path: str) -> str:
    """The path in hcloud-go's format: lower case, without IDs."""
    return _NOT_LETTERS.sub("", path.lower()).replace("//", "/")


def operation_label(method: str, path: str) -> str:
    """The operation's name in the API reference, for example ``GET /servers/{id}``."""
    return f"{method} " + "/".join("{id}" if part.isdigit() else part for part in path.split("/"))
