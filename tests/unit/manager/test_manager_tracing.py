import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ccm.tracing
from ccm.errors import CcmError
from ccm.kube.backoff import RetryLimiter
from ccm.kube.reconciler import run_workers
from ccm.manager.metrics import Metrics
from ccm.manager.otel import OpenTelemetry
from ccm.manager.trace_exporter import open_exporter
from ccm.tracing import current, kubernetes_template
from tests.otlp_receiver import attributes, receiving

TREE = Path(__file__).parents[3]
SOMEWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def asked(environment: dict[str, str]) -> tuple[bool, list[str]]:
    problems: list[str] = []
    exporter = open_exporter(environment, problems)
    if exporter is not None:
        exporter.close()
    return exporter is not None, problems


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (SOMEWHERE, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        (SOMEWHERE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        (SOMEWHERE | {"OTEL_SDK_DISABLED": "TRUE"}, False),
        (SOMEWHERE | {"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_asks_for_traces(environment: dict[str, str], wanted: bool) -> None:
    assert asked(environment) == (wanted, [])


def test_what_is_not_offered_is_refused() -> None:
    on, problems = asked(SOMEWHERE | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})
    assert not on
    [problem] = problems
    assert problem.startswith("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' isn't supported")


def test_missing_packages_are_reported(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "ccm.manager.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    on, problems = asked(SOMEWHERE)
    assert not on
    (problem,) = problems
    assert problem.startswith("OTEL_EXPORTER_OTLP_ENDPOINT enables tracing")
    assert "ccm-from-scratch[tracing]" in problem
    assert "ccm-from-scratch[tracing]" in problem


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "max_queue_size must be a positive integer."),
        (
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
            "many",
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT must be a non-negative integer but got many",
        ),
    ],
)
def test_a_variable_that_the_sdk_refuses_is_one_of_the_problems(name: str, value: str, why: str) -> None:
    # In a process of its own, for the SDK reads some of them when it is imported.
    asked = "OTEL_EXPORTER_OTLP_ENDPOINT enables tracing, but OpenTelemetry rejects"
    assert f"{asked} the value of a variable: {why}\n" in errors_of_process(name, value)


def test_headers_that_the_sdk_cannot_read_are_not_shown() -> None:
    errors = errors_of_process("OTEL_EXPORTER_OTLP_HEADERS", 'authorization="Bearer hunter2"')
    assert "Header format invalid" in errors
    assert "hunter2" not in errors


def errors_of_process(name: str, value: str) -> str:
    """What a manager that makes traces, and lacks all that it needs otherwise, says about a variable."""
    script = "import os; from ccm.manager.command import main; main([], os.environ)"
    command, environment = [sys.executable, "-c", script], {"PATH": "", name: value} | SOMEWHERE
    done = subprocess.run(
        command, cwd=TREE, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr


async def test_each_reconcile_says_how_it_ended(monkeypatch) -> None:
    with receiving() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        tracer = OpenTelemetry.sending({"OTEL_SERVICE_NAME": "mine"})
        queue = Metrics("1", tracer).queue("things", RetryLimiter(base=3600))
        late: list[ccm.tracing.Span] = []
        all_seen = asyncio.Event()

        async def reconcile(key: str) -> float | None:
            span = current.get()
            assert span is not None
            late.append(span)
            if len(late) == 3:
                all_seen.set()
            if key == "bad":
                span.request("PUT", "/things/{id}", 0, 0.5, "no_answer")
                raise CcmError("with a secret in it")
            return 3600.0 if key == "later" else None

        for key in ("good", "later", "bad"):
            queue.add(key)
        working = asyncio.create_task(run_workers(queue, reconcile))
        await all_seen.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        late[0].request("GET", "/too/late", 200, 0.1)
        assert current.get() is None
        tracer.close()
        assert received.services == {"mine"}
        by_key = {attributes(span)["ccm.key"]: attributes(span) for span in received.reconciles("things")}
        ends = {key: (one["ccm.outcome"], one.get("error.type")) for key, one in by_key.items()}
        assert ends == {"good": ("done", None), "later": ("requeued", None), "bad": ("failed", "CcmError")}
        assert {one["ccm.controller"] for one in by_key.values()} == {"things"}
        (request,) = [span for span in received.spans if not span.name.startswith("reconcile")]
        assert attributes(request) == {
            "http.request.method": "PUT",
            "url.template": "/things/{id}",
            "error.type": "no_answer",
        }
        assert request.end_time_unix_nano - request.start_time_unix_nano == 500_000_000
        assert b"secret" not in b"".join(received.bodies)
    assert not [one for one in threading.enumerate() if "Otel" in one.name]


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/api/v1/nodes/alpha", "/api/v1/nodes/{name}"),
        ("/api/v1/nodes/alpha/status", "/api/v1/nodes/{name}/status"),
        ("/api/v1/namespaces/shop/events", "/api/v1/namespaces/{namespace}/events"),
        (
            "/api/v1/namespaces/shop/services/web/status",
            "/api/v1/namespaces/{namespace}/services/{name}/status",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ccm",
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}",
        ),
        ("/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("/api/v1/namespaces/shop", "/api/v1/namespaces/{name}"),
        ("/healthz", "/healthz"),
    ],
)
def test_a_path_without_names(path: str, template: str) -> None:
    assert kubernetes_template(path) == template
