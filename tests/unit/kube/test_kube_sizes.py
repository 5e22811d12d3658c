import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from api_over_http import ApiOverHttp, raw

from ccm.kube import http
from ccm.kube.decoding import LineSplitter
from ccm.kube.errors import AnswerTooLarge
from ccm.kube.http import Transfer
from ccm.kube.informer import Informer
from ccm.kube.objects import Service
from ccm.kube.transport import KubernetesTransport

SERVICES = "/api/v1/services"
SHOP = "/api/v1/namespaces/shop/services"
LARGE = {"example.com/large": "x" * 256 * 1024}


@asynccontextmanager
async def connected(api: ApiOverHttp):
    seen = []
    await api.start()
    transport = await KubernetesTransport.connect(
        environment={}, master=api.url, user_agent="ccm/test", observe=seen.append, grace=60
    )
    try:
        yield transport, seen
    finally:
        await transport.close()
        await api.server.close()


@asynccontextmanager
async def following(transport: KubernetesTransport, **options):
    informer = Informer(transport, SERVICES, Service, **options)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(60):
            await informer.synced.wait()
        yield informer
    finally:
        task.cancel()
        await asyncio.wait([task])


def limits(api: ApiOverHttp) -> list[int]:
    return [int(one.query["limit"]) for one in api.seen if "limit" in one.query]


async def test_large_objects_come_by_pages_of_a_bounded_size() -> None:
    api = ApiOverHttp()
    for number in range(40):
        api.memory.put(SHOP, {"metadata": {"name": f"s{number}", "annotations": LARGE}})
    async with connected(api) as (transport, seen), following(transport) as informer:
        assert len(informer.items()) == 40
        assert informer.last_error == ""
        assert limits(api) == [500, 125, 31, 7, *[1] * 40]  # 7 of them are almost 2 MiB
        sizes = [one.received for one in seen if isinstance(one, Transfer)]
        assert len(sizes) == 40
        assert max(sizes) <= http.MAX_PAGE_SIZE


async def test_usual_objects_come_by_large_pages() -> None:
    api = ApiOverHttp()
    for number in range(600):
        api.memory.put(SHOP, {"metadata": {"name": f"s{number}", "annotations": {"a": "x" * 1500}}})
    async with connected(api) as (transport, _), following(transport) as informer:
        assert len(informer.items()) == 600
        assert limits(api) == [500, 500]


async def test_a_single_object_may_be_larger_than_a_page() -> None:
    api = ApiOverHttp()
    item = {"metadata": {"name": "s", "annotations": {"a": "x" * (http.MAX_PAGE_SIZE + 1)}}}
    api.memory.put(SHOP, item)
    async with connected(api) as (transport, _), following(transport) as informer:
        assert len(informer.items()) == 1
        found = [page async for page in transport.list_pages(SHOP, Service, name="s")]
        assert [one.metadata.name for page in found for one in page.items] == ["s"]


@pytest.mark.parametrize("verb", ["get", "list", "refused"])
async def test_an_answer_without_an_end_is_not_read_to_its_end(verb: str) -> None:
    api = ApiOverHttp()
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=500 if verb == "refused" else 200)
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)
            sent += 65_536

    api.override = endless
    async with connected(api) as (transport, _):
        pages = transport.list_pages(SERVICES, Service, limit=1)
        asked = anext(pages) if verb == "list" else transport.get(f"{SHOP}/s", Service)
        with pytest.raises(AnswerTooLarge, match="larger than"):
            await asked
    assert sent < 2 * http.MAX_OBJECT_SIZE


async def test_a_watch_line_without_an_end_is_not_kept() -> None:
    api = ApiOverHttp()
    api.override = raw(*[b"x" * 65_536] * (http.MAX_OBJECT_SIZE // 65_536 + 1))
    async with connected(api) as (transport, _):
        with pytest.raises(AnswerTooLarge, match="longer than"):
            _ = [one async for one in transport.watch(SERVICES, Service, "1", timeout=60)]


def test_many_lines_may_be_longer_together_than_one() -> None:
    splitter = LineSplitter(longest=10)
    found = [
        line for _ in range(100) for chunk in (b"12345", b"6789\n12", b"3\n") for line in splitter.feed(chunk)
    ]
    assert found == [b"123456789", b"123"] * 100
    with pytest.raises(AnswerTooLarge):
        list(splitter.feed(b"12345678901"))


async def test_handlers_get_only_the_trimmed_objects() -> None:
    api = ApiOverHttp()
    api.memory.put(SHOP, {"metadata": {"name": "listed", "annotations": LARGE}})
    received = []

    def transform(item: Service) -> Service:
        return Service(metadata=msgspec.structs.replace(item.metadata, annotations={}))

    async with connected(api) as (transport, _), following(transport, transform=transform) as informer:
        done = asyncio.Event()

        def tell(old: Service | None, new: Service | None) -> None:
            received.append((old, new))
            if new is None:
                done.set()

        informer.add_handler(tell)
        api.memory.put(SHOP, {"metadata": {"name": "watched", "annotations": LARGE}})
        api.memory.remove(f"{SHOP}/watched")
        async with asyncio.timeout(60):
            await done.wait()
        objects = [one for pair in received for one in pair if one is not None] + informer.items()
    assert {one.metadata.name for one in objects} == {"listed", "watched"}
    assert not any(one.metadata.annotations for one in objects)
