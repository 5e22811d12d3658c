import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from virtual_time import VirtualLoop

from ccm.clock import loop_time
from ccm.kube.errors import ConnectionFailed, Gone, ServerError, TooManyRequests, Unreadable
from ccm.kube.informer import Informer
from ccm.kube.objects import Node
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"


class Seen:
    """The changes that a handler received, as (old name, new name)."""

    def __init__(self) -> None:
        self.log: list[tuple[str | None, str | None]] = []

    def __call__(self, old: Node | None, new: Node | None) -> None:
        self.log.append((old and old.metadata.name, new and new.metadata.name))

    def take(self) -> list[tuple[str | None, str | None]]:
        log, self.log = self.log, []
        return log


def _lists(server: MemoryTransport) -> int:
    return sum(request.verb == "list" for request in server.requests)


@pytest.fixture
def server() -> MemoryTransport:
    memory = MemoryTransport()
    memory.put(NODES, {"metadata": {"name": "a"}})
    memory.put(NODES, {"metadata": {"name": "b"}})
    return memory


@pytest.fixture
async def fresh(server):
    """An informer that runs, but has not yet had its turn."""
    made = Informer(server, NODES, Node, random=lambda: 0.0)
    tasks: list[asyncio.Task[None]] = []

    def start() -> Informer[Node]:
        tasks.append(asyncio.create_task(made.run()))
        return made

    yield start
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def informer(fresh):
    return fresh()


async def _settle() -> None:
    await asyncio.sleep(0.001)


async def test_late_handler_learns_of_what_is_there(informer):
    await informer.synced.wait()
    seen = Seen()
    informer.add_handler(seen)
    assert sorted(seen.take()) == [(None, "a"), (None, "b")]


async def test_a_failing_handler_disturbs_no_other(informer, server):
    def broken(_old, _new):
        raise ValueError

    seen = Seen()
    informer.add_handler(broken)
    informer.add_handler(seen)
    await informer.synced.wait()
    assert len(seen.take()) == 2


async def test_cut_watch_continues_where_it_was(informer, server):
    await informer.synced.wait()
    await _settle()
    seen = Seen()
    informer.add_handler(seen)
    seen.take()
    server.disconnect()
    await asyncio.sleep(0.1)
    server.remove(f"{NODES}/a")
    await asyncio.sleep(2)
    assert seen.take() == [("a", None)]
    assert _lists(server) == 1


async def test_a_change_that_can_not_be_read_hides_none_that_follow():
    """The watch goes on from what was read, so the same line comes again."""

    class Stumbling(MemoryTransport):
        async def watch(self, path, kind, resource_version, *, timeout):
            async for event in super().watch(path, kind, resource_version, timeout=timeout):
                if event.metadata.name == "odd":
                    raise Unreadable(message="odd line")
                yield event

    stumbling = Stumbling()
    stumbling.put(NODES, {"metadata": {"name": "a"}})
    informer = Informer(stumbling, NODES, Node)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await _settle()
    stumbling.put(NODES, {"metadata": {"name": "odd"}})
    stumbling.put(NODES, {"metadata": {"name": "b"}})
    await asyncio.sleep(5)
    assert sorted(item.metadata.name for item in informer.items()) == ["a", "b", "odd"]
    assert _lists(stumbling) == 2
    task.cancel()


async def test_watch_that_ends_is_opened_again(informer, server):
    await informer.synced.wait()
    await asyncio.sleep(700)
    assert sum(request.verb == "watch" for request in server.requests) >= 3
    assert informer.last_error == ""
    assert server.watches == 1


async def test_bookmarks_keep_a_quiet_watch_from_expiring(informer, server):
    await informer.synced.wait()
    await _settle()
    server.put("/api/v1/namespaces/x/services", {"metadata": {"name": "busy"}})
    server.bookmark()
    await _settle()
    server.compact()
    server.disconnect()
    await asyncio.sleep(10)
    assert _lists(server) == 1


async def test_dead_server_is_asked_less_and_less(fresh, server):
    server.fail(ConnectionFailed(), times=1000)
    informer = fresh()
    await asyncio.sleep(300)
    requests = len(server.requests)
    assert 10 <= requests <= 16
    assert informer.failing_since == pytest.approx(0, abs=0.01)
    assert not informer.synced.is_set()


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_recovery_is_noticed(fresh, server, verb):
    server.fail(ServerError(500, message="boom"), verb=verb, times=3)
    informer = fresh()
    await asyncio.sleep(30)
    assert informer.synced.is_set()
    assert (informer.failing_since, informer.last_error) == (None, "boom")
    assert sum(request.verb == verb for request in server.requests) == 4


async def test_watches_that_are_cut_again_and_again_are_soon_there_again(informer, server):
    """As by a proxy before the API server that ends what is silent for half a minute."""
    await informer.synced.wait()
    for number in range(20):
        await asyncio.sleep(30)
        server.disconnect()
        await asyncio.sleep(1)
        server.put(NODES, {"metadata": {"name": "a", "labels": {"number": str(number)}}})
        await _settle()
        assert informer.get("a").metadata.labels["number"] == str(number)
    assert _lists(server) == 1


async def test_recovery_is_noticed_by_later_readers(fresh, server):
    server.fail(ServerError(500, message="boom"), verb="watch", times=1)
    informer = fresh()
    await asyncio.sleep(60)
    server.disconnect()
    await asyncio.sleep(0.1)
    assert informer.failing_since == pytest.approx(60)


async def test_server_that_asks_to_wait_is_obeyed(fresh, server):
    server.fail(TooManyRequests(429, retry_after=20))
    informer = fresh()
    await informer.synced.wait()
    assert loop_time() == pytest.approx(20, abs=0.1)


async def test_watches_that_end_at_once_do_not_spin(server):
    class Impatient(MemoryTransport):
        async def watch(self, path, kind, resource_version, *, timeout):
            self.requests.append(None)
            return
            yield

    impatient = Impatient()
    task = asyncio.create_task(Informer(impatient, NODES, Node).run())
    await asyncio.sleep(60)
    task.cancel()
    assert len(impatient.requests) < 15


async def test_resync_calls_handlers_without_asking_the_server(server):
    informer = Informer(server, NODES, Node, resync=100)
    seen = Seen()
    informer.add_handler(seen)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    seen.take()
    await asyncio.sleep(110)
    task.cancel()
    assert sorted(seen.take()) == [("a", "a"), ("b", "b")]
    assert _lists(server) == 1


NAMES = st.sampled_from(["a", "b", "c"])


class InformerMachine(RuleBasedStateMachine):
    """Whatever happens to server and connection, copy and handlers end up with what the server has."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual = VirtualLoop()
        self.server = MemoryTransport()
        self.reported: dict[str, Node] = {}
        self.wrong: list[object] = []
        self.undecodable: set[str] = set()
        self.ever_deleted: set[str] = set()
        self.virtual.run(self._start())

    async def _start(self) -> None:
        self.informer = Informer(self.server, NODES, Node)
        self.informer.add_handler(self._handler)
        self.task = asyncio.create_task(self.informer.run())

    def _handler(self, old: Node | None, new: Node | None) -> None:
        named = new or old
        assert named is not None
        before = self.reported.get(named.metadata.name)
        if new is None:
            # A deletion comes with the object's final state, which may be newer than the last reported state.
            same = before is not None and old is not None and before.metadata.uid == old.metadata.uid
        else:
            same = before == old
        if not same or (new is None and named.metadata.name not in self.ever_deleted):
            self.wrong.append((before, old, new))
        if new is None:
            del self.reported[named.metadata.name]
        else:
            self.reported[named.metadata.name] = new

    @rule(name=NAMES, value=st.sampled_from("xyz"))
    def write(self, name, value):
        self.server.put(NODES, {"metadata": {"name": name, "labels": {"v": value}}})
        self.undecodable.discard(name)

    @rule(name=NAMES)
    def write_nonsense(self, name):
        self.server.put(NODES, {"metadata": {"name": name}, "spec": {"taints": "nonsense"}})
        self.undecodable.add(name)

    @rule(name=NAMES)
    def delete(self, name):
        if any(item["metadata"]["name"] == name for item in self.server.all(NODES)):
            self.ever_deleted.add(name)
            self.server.remove(f"{NODES}/{name}")
            self.undecodable.discard(name)

    @rule()
    def cut(self):
        self.server.disconnect()

    @rule()
    def expire(self):
        self.server.disconnect(Gone(410))
        self.server.compact()

    @rule()
    def forget_history(self):
        self.server.compact()

    @rule(times=st.integers(1, 4), verb=st.sampled_from(["list", "watch"]))
    def break_down(self, times, verb):
        self.server.fail(ServerError(500), verb=verb, times=times)

    @rule()
    def bookmark(self):
        self.server.bookmark()

    @rule(seconds=st.sampled_from([0.01, 1, 20, 700]))
    def pass_time(self, seconds):
        self.virtual.advance(seconds)

    @invariant()
    def reported_objects_are_cached(self):
        assert self.wrong == []
        assert self.reported == {item.metadata.key: item for item in self.informer.items()}

    def teardown(self):
        self.server._faults.clear()
        self.virtual.advance(200)
        assert self.informer.synced.is_set()
        stored = {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in self.server.all(NODES)
        }
        held = {item.metadata.name: item.metadata.resource_version for item in self.informer.items()}
        # What makes no sense is held as it was last understood, if it ever was.
        assert set(stored) - self.undecodable <= set(held) <= set(stored)
        assert {name: held[name] for name in set(stored) - self.undecodable} == {
            name: version for name, version in stored.items() if name not in self.undecodable
        }
        self.virtual.close()


TestInformerMachine = InformerMachine.TestCase
TestInformerMachine.settings = settings(stateful_step_count=30)
