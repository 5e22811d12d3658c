"""Takes traces by OTLP over HTTP, as a collector does."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_server import Json, serving


@dataclass
class Received:
    endpoint: str  # for OTEL_EXPORTER_OTLP_ENDPOINT
    bodies: list[bytes] = field(default_factory=list)

    @property
    def services(self) -> set[str]:
        return {
            one.value.string_value
            for request in self._requests()
            for spans in request.resource_spans
            for one in spans.resource.attributes
            if one.key == "service.name"
        }

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self._requests()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def reconciles(self, queue: str) -> list[Any]:
        return [span for span in self.spans if span.name == f"reconcile {queue}"]

    def below(self, parent: Any) -> list[Any]:
        return [span for span in self.spans if span.parent_span_id == parent.span_id]

    def _requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in list(self.bodies)]


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@contextmanager
def receiving() -> Iterator[Received]:
    class Handler(Json, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            if self.path == "/v1/traces":
                received.bodies.append(gzip.decompress(body) if packed else body)
            self.answer(200, None)

    received = Received("")
    with serving(Handler) as port:
        received.endpoint = f"http://127.0.0.1:{port}"
        yield received
