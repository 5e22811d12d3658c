"""``rest_client_*``: requests to the API server, as client-go measures them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from ccm.kube.http import Call, Transfer

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RequestMetrics:
    """Requests to the API server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._retries = Counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ["code", "verb", "host"],
            registry=registry,
        )
        self._seconds = _histogram(
            registry, "request_duration_seconds", "Request latency in seconds", _SECONDS
        )
        self._waited = _histogram(
            registry, "rate_limiter_duration_seconds", "Client side rate limiter latency in seconds", _SECONDS
        )
        self._sent = _histogram(registry, "request_size_bytes", "Request size in bytes", _BYTES)
        self._received = _histogram(registry, "response_size_bytes", "Response size in bytes", _BYTES)

    def observe(self, seen: Call | Transfer) -> None:
        """Count what a transport reports."""
        if isinstance(seen, Transfer):
            self._sent.labels(seen.verb, seen.host).observe(seen.sent)
            self._received.labels(seen.verb, seen.host).observe(seen.received)
            return
        self._requests.labels(seen.status, seen.verb, seen.host).inc()
        if seen.retry:
            self._retries.labels(seen.status, seen.verb, seen.host).inc()
        self._seconds.labels(seen.verb, seen.host).observe(seen.seconds)
        self._waited.labels(seen.verb, seen.host).observe(seen.waited)


def _histogram(registry: CollectorRegistry, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(
        f"rest_client_{name}",
        f"{text}. Broken down by verb, and host.",
        ["verb", "host"],
        buckets=buckets,
        registry=registry,
    )
