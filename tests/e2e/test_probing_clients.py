import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.e2e.probing_clients import ServiceClient


class Sometimes(BaseHTTPRequestHandler):
    """Answers two of three requests."""

    numbers = itertools.count()
    enough = threading.Event()

    def do_GET(self) -> None:
        number = next(self.numbers)
        if number > 20:
            self.enough.set()
        self.send_response(200 if number % 3 else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[int, type[Sometimes]]]:
    handler = type("Handler", (Sometimes,), {"numbers": itertools.count(), "enough": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, handler
        finally:
            server.shutdown()
            thread.join()


def test_what_a_service_does_not_answer_is_lost() -> None:
    with serving() as (port, handler), ServiceClient(f"http://127.0.0.1:{port}/") as client:
        assert handler.enough.wait(60)
    assert len(client.calls) == client.answered + len(client.lost)
    assert len(client.calls) // 3 - 1 <= len(client.lost) <= len(client.calls) // 3 + 1
    assert all("503" in why for _, why in client.lost)
    assert [call.began for call in client.calls] == sorted(call.began for call in client.calls)
