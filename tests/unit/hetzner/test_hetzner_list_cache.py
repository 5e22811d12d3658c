import asyncio

import pytest

from ccm.cloud import CloudUnavailable
from ccm.hetzner.api import ListCache, Listing, Priority, UndecodableItem
from ccm.hetzner.api.api_errors import TokenChanged
from ccm.hetzner.api.models import Server
from ccm.hetzner.api.project_token import ProjectToken

pytestmark = pytest.mark.looptime

SWEEP = Priority.SWEEP


class Source:
    """A list that takes a second."""

    def __init__(self, *names: str) -> None:
        self.servers = {number: Server(number, name) for number, name in enumerate(names, start=1)}
        self.reads = 0
        self.error: Exception | None = None
        self.undecodable: tuple[UndecodableItem, ...] = ()

    async def fetch(self, _: Priority) -> Listing[Server]:
        self.reads += 1
        items = list(self.servers.values())
        await asyncio.sleep(1)
        if self.error:
            raise self.error
        return Listing(items, self.undecodable)

    def cached(self, token: ProjectToken | None = None) -> ListCache[Server]:
        return ListCache(self.fetch, token=token, clock=asyncio.get_running_loop().time)


async def test_it_is_read_when_a_caller_needs_it_fresher() -> None:
    source = Source("a")
    cached = source.cached()
    assert cached.age is None
    assert set((await cached.read(10, SWEEP)).by_name) == {"a"}
    await asyncio.sleep(5)
    await cached.read(10, SWEEP)
    assert source.reads == 1
    await cached.read(3, SWEEP)
    assert source.reads == 2
    await asyncio.sleep(20)
    await cached.read(10, SWEEP)
    assert source.reads == 3


async def test_its_age_counts_from_the_question_not_from_the_answer() -> None:
    cached = Source("a").cached()
    await cached.read(10, SWEEP)
    assert cached.age == pytest.approx(1)


async def test_age_zero_never_joins_a_list_that_was_asked_for_before() -> None:
    source = Source("a")
    cached = source.cached()
    early = asyncio.create_task(cached.read(0, SWEEP))
    await asyncio.sleep(0.5)
    source.servers[2] = Server(2, "b")
    assert set((await cached.read(0, SWEEP)).by_name) == {"a", "b"}
    assert source.reads == 2
    await early


async def test_a_failure_reaches_its_readers_and_keeps_what_was_known() -> None:
    source = Source("a")
    cached = source.cached()
    await cached.read(10, SWEEP)
    source.error = CloudUnavailable("down")
    await asyncio.sleep(60)
    with pytest.raises(CloudUnavailable):
        await cached.read(10, SWEEP)
    assert set(cached.contents.by_name) == {"a"}
    source.error = None
    await cached.read(10, SWEEP)


async def test_a_reader_that_leaves_takes_nothing_from_the_others() -> None:
    source = Source("a")
    cached = source.cached()
    first = asyncio.create_task(cached.read(10, SWEEP))
    second = asyncio.create_task(cached.read(10, SWEEP))
    await asyncio.sleep(0.5)
    first.cancel()
    assert set((await second).by_name) == {"a"}
    assert source.reads == 1


async def test_a_more_important_reader_is_not_held_up_by_a_sweeps_failure() -> None:
    asked: list[Priority] = []

    async def fetch(priority: Priority) -> Listing[Server]:
        asked.append(priority)
        await asyncio.sleep(1)
        if priority is SWEEP:
            raise CloudUnavailable("no quota for sweeps")
        return Listing([Server(1, "a")])

    cached = ListCache(fetch, clock=asyncio.get_running_loop().time)
    sweep = asyncio.create_task(cached.read(10, SWEEP))
    await asyncio.sleep(0.5)
    assert set((await cached.read(10, Priority.NODES)).by_name) == {"a"}
    assert asked == [SWEEP, Priority.NODES]
    with pytest.raises(CloudUnavailable):
        await sweep


async def test_what_we_write_is_seen_at_once() -> None:
    cached = Source("a").cached()
    await cached.read(10, SWEEP)
    cached.put(Server(2, "b"))
    cached.remove(1)
    contents = await cached.read(10, SWEEP)
    assert (set(contents.by_name), set(contents.by_id)) == ({"b"}, {2})


async def test_what_we_write_wins_over_a_list_that_was_asked_for_before() -> None:
    source = Source("a", "gone")
    cached = source.cached()
    reading = asyncio.create_task(cached.read(10, SWEEP))
    await asyncio.sleep(0.5)
    cached.put(Server(3, "made"))
    cached.put(Server(1, "renamed"))
    cached.remove(2)
    contents = await reading
    assert set(contents.by_name) == {"made", "renamed"}
    assert set(contents.by_id) == {1, 3}
    source.servers = {1: Server(1, "a")}
    assert set((await cached.read(0, SWEEP)).by_name) == {"a"}, "the next list is the truth again"


async def test_each_item_has_its_own_age() -> None:
    cached = Source("a", "b").cached()
    await cached.read(10, SWEEP)
    await asyncio.sleep(9)
    cached.put(Server(1, "a"))
    assert (cached.item_age(1), cached.item_age(2)) == (pytest.approx(0), pytest.approx(10))
    assert cached.item_age(99) is None


async def test_odd_items_are_known_to_exist() -> None:
    source = Source("a")
    source.undecodable = (UndecodableItem(7, "odd", "what is this"),)
    contents = await source.cached().read(10, SWEEP)
    assert 7 in contents.undecodable


async def test_closing_while_reading() -> None:
    cached = Source("a").cached()
    reader = asyncio.create_task(cached.read(10, SWEEP))
    await asyncio.sleep(0.5)
    await cached.close()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def test_a_list_during_which_the_token_changes_is_none() -> None:
    """Its pages may be those of two projects."""
    source, tokens = Source("a"), ["ours"]
    token = ProjectToken(lambda: tokens[-1])
    cached = source.cached(token)
    reading = asyncio.create_task(cached.read(10, SWEEP))
    await asyncio.sleep(0.5)
    tokens.append("another")
    token.look()
    with pytest.raises(TokenChanged):
        await reading
    assert cached.age is None
    assert not cached.contents.by_id


async def test_a_reader_that_joined_another_tokens_list_gets_one_of_its_own() -> None:
    source, tokens = Source("a"), ["another"]
    token = ProjectToken(lambda: tokens[-1])
    cached = source.cached(token)

    async def read() -> set[str]:
        with token.hold():
            return set((await cached.read(10, SWEEP)).by_name)

    starter, joiner = asyncio.create_task(read()), asyncio.create_task(read())
    await asyncio.sleep(0.5)
    tokens.append("ours")
    token.look()
    assert await read() == {"a"}
    assert source.reads == 2
    for begun_before in (starter, joiner):
        with pytest.raises(TokenChanged):
            await begun_before


async def test_what_another_token_showed_is_forgotten() -> None:
    source, tokens = Source("a"), ["ours"]
    token = ProjectToken(lambda: tokens[-1])
    cached = source.cached(token)
    await cached.read(10, SWEEP)
    with token.hold():
        await cached.read(10, SWEEP)
        cached.put(Server(7, "h"))
    assert source.reads == 1
    tokens.append("another")
    token.look()
    assert cached.age is None
    assert cached.item_age(1) is None
    source.servers = {}
    assert not (await cached.read(10, SWEEP)).by_id
