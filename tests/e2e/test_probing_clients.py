import itertools
import threading
from http.server import BaseHTTPRequestHandler

from tests.e2e.probing_clients import ServiceClient
from tests.http_server import Json, serving


def test_what_a_service_does_not_answer_is_lost() -> None:
    numbers, enough = itertools.count(), threading.Event()

    class Sometimes(Json, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = next(numbers)
            if number > 20:
                enough.set()
            self.answer(200 if number % 3 else 503, None)

    with serving(Sometimes) as port, ServiceClient(f"http://127.0.0.1:{port}/") as client:
        assert enough.wait(60)
    assert len(client.calls) == client.answered + len(client.lost)
    assert len(client.calls) // 3 - 1 <= len(client.lost) <= len(client.calls) // 3 + 1
    assert all("503" in why for _, why in client.lost)
    assert [call.began for call in client.calls] == sorted(call.began for call in client.calls)
