"""A store of objects on this host that answers as S3 does, as far as snapshots ask."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from tests import http_server

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


class Store:
    def __init__(self, bucket: str, access_key: str) -> None:
        self.bucket = bucket
        self.access_key = access_key
        self.objects: dict[str, bytes] = {}
        self.address = ""  # host and port
        self.full = False  # whether writing fails

    def listing(self, prefix: str, after: str) -> bytes:
        """A page of two, as the real one has pages of a thousand."""
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        items = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.objects[key])}</Size>"
            f"<LastModified>2026-11-22T10:00:{number:02}.000Z</LastModified></Contents>"
            for number, key in enumerate(keys[:2], len(after))
        )
        more = f"<NextContinuationToken>{keys[1]}</NextContinuationToken>" if len(keys) > 2 else ""
        return f'<ListBucketResult xmlns="{NAMESPACE}">{items}{more}</ListBucketResult>'.encode()


class _Server(ThreadingHTTPServer):
    def __init__(self, store: Store, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.store = store


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _asked(self) -> tuple[str | None, dict[str, list[str]]]:
        """The key; None if the request isn't allowed, or the bucket doesn't exist."""
        store, parts = self.server.store, urlsplit(self.path)
        bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
        allowed = f"Credential={store.access_key}/" in self.headers.get("Authorization", "")
        if allowed and bucket == store.bucket:
            return key, parse_qs(parts.query)
        self._answer(404 if allowed else 403, b"")
        return None, {}

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        key, query = self._asked()
        store = self.server.store
        if key is None:
            return
        if "list-type" in query:
            after = query.get("continuation-token", [""])[0]
            self._answer(200, store.listing(query.get("prefix", [""])[0], after))
        elif key == "" or key in store.objects:
            self._answer(200, store.objects.get(key, b""))
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key, _ = self._asked()
        if key is not None and not self.server.store.full:
            self.server.store.objects[key] = body
        if key is not None:
            self._answer(507 if self.server.store.full else 200, b"")

    def do_DELETE(self) -> None:
        key, _ = self._asked()
        if key is not None:
            self.server.store.objects.pop(key, None)
            self._answer(204, b"")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def running(bucket: str, access_key: str, host: str = "127.0.0.1") -> Iterator[Store]:
    """A store that answers at an address of this host until the end of the block."""
    store = Store(bucket, access_key)
    with http_server.running(_Server(store, host)) as port:
        store.address = f"{host}:{port}"
        yield store
