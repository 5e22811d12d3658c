"""An HTTP server on loopback, for as long as a test needs it."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Json:
    """Makes a ``BaseHTTPRequestHandler`` that it stands before answer with JSON, and log nothing."""

    def answer(self, status: int, content: Any) -> None:
        """Answer with this; None is an empty answer."""
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[int]:
    """Serve in a thread until the end of the block; gives the port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1, which is given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with running(server) as port:
        yield port
