"""Whether the kubeconfig waits for the load balancer that it names."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.api import Patience
from infra.errors import EndpointError
from infra.kubeconfig import wait_for_endpoint


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_refusal_is_an_answer_and_silence_is_none():
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        url = f"http://127.0.0.1:{server.server_port}/readyz"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        wait_for_endpoint(url, Patience(seconds=0))
        server.shutdown()
        thread.join()
    seconds = iter(range(100))
    pauses = []
    with pytest.raises(EndpointError, match="refused"):
        wait_for_endpoint(url, Patience(3, now=lambda: next(seconds), sleep=pauses.append))
    assert pauses == [1.0, 1.0]
