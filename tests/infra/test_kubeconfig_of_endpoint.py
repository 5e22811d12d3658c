"""Which API server the kubeconfig names, and how long it waits for one."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from ccm_pulumi.cluster.kubeconfig import endpoints, wait_for_endpoint
from ccm_pulumi.lib.cloud_api import Patience
from ccm_pulumi.lib.errors import InfraError
from tests.http_server import Json, serving
from tests.ports import free_port


class Refusing(Json, BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(401, None)


def test_a_refusal_is_an_answer_and_silence_is_none():
    with serving(Refusing) as port:
        url = f"http://127.0.0.1:{port}"
        silent = f"http://127.0.0.1:{free_port()}"
        assert wait_for_endpoint([silent, url], Patience(seconds=0)) == url
    seconds = iter(range(100))
    pauses = []
    with pytest.raises(InfraError, match="refused"):
        wait_for_endpoint([url], Patience(3, now=lambda: next(seconds), sleep=pauses.append))
    assert pauses == [1.0, 1.0]


def test_without_a_load_balancer_any_control_server_does():
    other = {"address": "203.0.113.8", "host_key": "k", "server_id": "2"}
    props = {"address": "203.0.113.7", "private_key": "p", "server_id": "1", "others": {"control-2": other}}
    original = "clusters: [{cluster: {server: 'https://127.0.0.1:6444'}}]"
    assert endpoints(original, props) == ["https://203.0.113.7:6444", "https://203.0.113.8:6444"]
    assert endpoints("", props)[0] == "https://203.0.113.7:6443"
    assert endpoints(original, {**props, "endpoint": "203.0.113.9"}) == ["https://203.0.113.9:6443"]
