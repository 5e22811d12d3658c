"""Whether the kubeconfig waits for the load balancer that it names."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from infra.api import Patience
from infra.errors import EndpointError
from infra.kubeconfig import wait_for_endpoint
from tests.http_server import Json, serving


class Refusing(Json, BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(401, None)


def test_a_refusal_is_an_answer_and_silence_is_none():
    with serving(Refusing) as port:
        url = f"http://127.0.0.1:{port}/readyz"
        wait_for_endpoint(url, Patience(seconds=0))
    seconds = iter(range(100))
    pauses = []
    with pytest.raises(EndpointError, match="refused"):
        wait_for_endpoint(url, Patience(3, now=lambda: next(seconds), sleep=pauses.append))
    assert pauses == [1.0, 1.0]
