"""Traces with OpenTelemetry's SDK. Only this module imports the SDK, and only if tracing is enabled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OpenSpan
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as OpenTracer

from ccm.http_client import EnvironmentAdapter
from ccm.tracing import Span, current
from ccm.version import VERSION

_SERVICE = "cloud-controller-manager"
_GOODBYE = 2.0  # seconds; the kubelet waits 15 s for the whole process


class OpenTelemetry:
    """A ``Tracer`` that sends its spans with OTLP."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("ccm", VERSION)

    @classmethod
    def sending(cls, environment: Mapping[str, str]) -> OpenTelemetry:
        """A tracer that sends spans to the endpoint in OpenTelemetry's variables of this process."""
        named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        logging.getLogger("opentelemetry.util.re").addFilter(_hide)
        resource = Resource.create({} if named else {"service.name": _SERVICE})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        session, adapter = requests.Session(), EnvironmentAdapter()
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(session=session)))
        return cls(provider)

    @contextmanager
    def reconcile(self, queue: str, key: str) -> Generator[Span]:
        """See :meth:`ccm.tracing.Tracer.reconcile`."""
        attributes = {"ccm.controller": queue, "ccm.key": key}
        span = self._tracer.start_span(f"reconcile {queue}", Context(), attributes=attributes)
        reconcile = _Reconcile(self._tracer, span)
        token = current.set(reconcile)
        try:
            yield reconcile
        except BaseException as error:
            # no text of the error, because only the log removes secrets
            reconcile.outcome("failed" if isinstance(error, Exception) else "cancelled")
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            current.reset(token)
            span.end()

    def close(self) -> None:
        """See :meth:`ccm.manager.trace_exporter.Exporter.close`."""
        # The SDK would wait up to 30 s for an unresponsive collector.
        leaving = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        leaving.start()
        leaving.join(_GOODBYE)


def _hide(record: logging.LogRecord) -> bool:
    """Hide the arguments, because the SDK logs invalid headers, which may contain a token."""
    record.args = tuple("(not shown)" for _ in record.args or ())
    return True


class _Reconcile:
    """A running span; see :class:`ccm.tracing.Span`."""

    def __init__(self, tracer: OpenTracer, span: OpenSpan) -> None:
        self._tracer = tracer
        self._span = span

    def outcome(self, text: str) -> None:
        self._span.set_attribute("ccm.outcome", text)

    def request(self, method: str, template: str, status: int, seconds: float, error: str = "") -> None:
        if not self._span.is_recording():
            return  # a task of this reconcile may end after the span
        end = time.time_ns()
        attributes: dict[str, str | int] = {"http.request.method": method, "url.template": template}
        if status:
            attributes["http.response.status_code"] = status
        if error:
            attributes["error.type"] = error
        child = self._tracer.start_span(
            f"{method} {template}",
            set_span_in_context(self._span, Context()),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - int(seconds * 1e9),
        )
        if error:
            child.set_status(StatusCode.ERROR)
        child.end(end)
