import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import structlog
import trustme
from aiohttp import web

from ccm.http_server import Limits, peer_of, serving

# Nothing takes that long: only a test that moves the clock sees them reached.
LIMITS = Limits(connections=6, of_one_peer=3, request=300, whole=600, received=4096)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(params=["plain", "tls"])
def contexts(request) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """The server's and its clients'."""
    if request.param == "plain":
        return None, None
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


class Clock:
    """Moves the event loop's clock on; bytes and handshakes take the real time that they need."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._real, self._moved = self._loop.time, 0.0
        self._loop.time = lambda: self._real() + self._moved

    def now(self) -> float:
        return self._loop.time()

    async def pass_while(self, going_on: Callable[[], bool]) -> None:
        while going_on():
            self._moved += 10
            await asyncio.sleep(0.001)

    async def pass_until_closed(self, reader: asyncio.StreamReader) -> bytes:
        reading = asyncio.create_task(Site.rest(reader))
        await self.pass_while(lambda: not reading.done())
        return reading.result()


@pytest.fixture
async def clock() -> Clock:
    return Clock()


class Site:
    def __init__(self, port: int, client: ssl.SSLContext | None) -> None:
        self.port = port
        self.client = client
        self.opened: list[asyncio.StreamWriter] = []

    async def connect(self, source: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.client, local_addr=(source, 0)
        )
        self.opened.append(writer)
        return reader, writer

    async def ask(self, source: str = "127.0.0.1") -> bytes:
        reader, writer = await self.connect(source)
        writer.write(GET)
        return await self.rest(reader)

    @staticmethod
    async def rest(reader: asyncio.StreamReader) -> bytes:
        """What comes until the other side closes, which it must do."""
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@asynccontextmanager
async def opened(
    contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None],
    limits: Limits,
    answer: str = "here",
    seconds: float = 0.0,
    asked: asyncio.Event | None = None,
) -> AsyncIterator[Site]:
    async def handle(_: web.Request) -> web.Response:
        if asked is not None:
            asked.set()
        await asyncio.sleep(seconds)  # of an answer that takes its time
        return web.Response(text=answer)

    application = web.Application()
    application.router.add_get("/", handle)
    server, client = contexts
    context = None if server is None else lambda: server
    async with serving(application, address="127.0.0.1", port=0, context=context, limits=limits) as port:
        site = Site(port, client)
        try:
            yield site
        finally:
            for writer in site.opened:
                writer.transport.abort()
            for writer in site.opened:
                with suppress(OSError):  # how it ended is of no interest here
                    await writer.wait_closed()


async def test_one_request_is_answered_and_the_connection_ends(contexts) -> None:
    with structlog.testing.capture_logs() as logged:
        async with opened(contexts, LIMITS) as site:
            assert b"here" in await site.ask()
    assert [line["event"] for line in logged if line["log_level"] != "debug"] == []
    async with opened(contexts, LIMITS) as site:
        answer = await site.ask()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"here")
        assert b"Connection: close" in answer
        reader, writer = await site.connect()
        writer.write(GET.replace(b"/ ", b"/nowhere "))
        assert b"Connection: close" in await site.rest(reader)


@pytest.mark.parametrize(
    "sent",
    [
        GET.replace(b"/ ", b"http://[ ", 1),
        GET.replace(b"Host", b"Content-Length: -5\r\nHost"),
        b"\xff\r\n\r\n",
    ],
    ids=["address", "length", "noise"],
)
async def test_what_is_no_http_is_answered_and_leaves_no_stack_trace(contexts, caplog, sent: bytes) -> None:
    async with opened(contexts, LIMITS) as site:
        reader, writer = await site.connect()
        writer.write(sent)
        assert b" 400 " in await site.rest(reader)
    assert [record.name for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("sent", [b"", GET[:20]], ids=["nothing", "half a request"])
async def test_a_connection_that_does_not_ask_is_closed(contexts, clock: Clock, sent: bytes) -> None:
    async with opened(contexts, LIMITS) as site:
        began = clock.now()
        reader, writer = await site.connect()
        writer.write(sent)
        assert not (await clock.pass_until_closed(reader)).startswith(b"HTTP/1.1 200")
        assert clock.now() - began >= LIMITS.request


async def test_a_request_that_comes_drop_by_drop_is_not_waited_for(contexts, clock: Clock) -> None:
    async with opened(contexts, LIMITS) as site:
        began = clock.now()
        reader, writer = await site.connect()

        async def drip() -> None:
            for byte in b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000:
                writer.write(bytes([byte]))
                await asyncio.sleep(1)

        dripping = asyncio.create_task(drip())
        assert b"200" not in await clock.pass_until_closed(reader)
        assert clock.now() - began >= LIMITS.request
        dripping.cancel()


async def test_a_client_that_does_not_read_is_not_waited_for(contexts, clock: Clock) -> None:
    asked = asyncio.Event()
    async with opened(contexts, LIMITS, answer="x" * 50_000_000, asked=asked) as site:
        idle = len(asyncio.all_tasks())
        reader, writer = await site.connect()
        writer.transport.pause_reading()
        writer.write(GET)
        await asked.wait()
        await clock.pass_while(lambda: len(asyncio.all_tasks()) > idle)
        writer.transport.resume_reading()
        assert len(await site.rest(reader)) < 50_000_000


async def test_an_unfinished_tls_handshake_is_not_waited_for(clock: Clock) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    async with opened((server, None), LIMITS) as site:
        reader, _ = await site.connect()
        assert await clock.pass_until_closed(reader) == b""


async def test_who_sends_too_much_is_cut_off(contexts) -> None:
    async with opened(contexts, LIMITS, seconds=600) as site:
        reader, writer = await site.connect()
        writer.write(GET * 1000)
        assert await site.rest(reader) == b""


async def test_one_peer_loses_its_oldest_connection_for_its_newest(contexts) -> None:
    async with opened(contexts, LIMITS) as site:
        (first, _), *_ = [await site.connect() for _ in range(3)]
        other, _ = await site.connect("127.0.0.2")
        assert (await site.ask()).endswith(b"here")
        assert await site.rest(first) == b""
        assert not other.at_eof()


async def test_the_greediest_peer_makes_room_for_all_others(contexts) -> None:
    async with opened(contexts, replace(LIMITS, of_one_peer=5)) as site:
        greedy = [await site.connect("127.0.0.9") for _ in range(5)]
        for number in range(2, 7):
            await site.connect(f"127.0.0.{number}")
            assert (await site.ask("127.0.0.1")).endswith(b"here")
        assert await site.rest(greedy[0][0]) == b""


async def test_a_flood_leaves_room_for_probes(contexts) -> None:
    """Hundreds of idle connections, of which the newest few live, and nothing is kept of the others."""
    async with opened(contexts, replace(LIMITS, connections=8, of_one_peer=4)) as site:
        before = len(asyncio.all_tasks())
        for number in range(200):
            await site.connect(f"127.0.0.{2 + number % 20}")
        assert (await site.ask()).endswith(b"here")
        while len(asyncio.all_tasks()) - before > 2 * 8:  # noqa: ASYNC110 - they end by themselves
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_who_a_peer_is(address: str, peer: str) -> None:
    assert peer_of(address) == peer


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
async def test_everywhere_is_both_families(address: str) -> None:
    async with serving(web.Application(), address=address, port=0, limits=LIMITS) as port:
        for host in ("127.0.0.1", "::1"):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()


async def test_an_address_in_use_is_an_error() -> None:
    async with serving(web.Application(), address="127.0.0.1", port=0) as port:
        with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
            async with serving(web.Application(), address="127.0.0.1", port=port):
                pass
