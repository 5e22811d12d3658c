"""What answers machines at 169.254.169.254, as far as that needs no kernel."""

import asyncio

import pytest

from hetzner_machines.errors import NotPermitted
from hetzner_machines.link_local import HTTP, LinkLocal
from hetzner_machines.names import Names

NAMES = Names("0a1b2c")


class Answering(LinkLocal):
    """Answers already in some namespaces, and notes where it ends."""

    def __init__(self, *namespaces: str) -> None:
        super().__init__(NAMES, None)
        self.ended: list[str] = []
        self._ends = {(namespace, HTTP): self._end_of(namespace) for namespace in namespaces}

    def _end_of(self, namespace):
        async def end():
            await asyncio.sleep(0)  # as a listening socket that is closed
            self.ended.append(namespace)

        return end


async def never(_bound):
    raise AssertionError("there is nowhere to listen")


async def test_closing_twice_at_a_time():
    answering = Answering(NAMES.router, NAMES.network(1), NAMES.network(2))
    await asyncio.gather(answering.close(1), answering.close(1), answering.close_all(), answering.close(2))
    assert sorted(answering.ended) == sorted([NAMES.router, NAMES.network(1), NAMES.network(2)])


async def test_a_network_deleted_during_the_start_is_skipped():
    answering = Answering(NAMES.router, NAMES.network(2))
    await answering.serve_http(never, [1, 2])
    await answering.close_all()
    assert answering.ended == [NAMES.router, NAMES.network(2)]


async def test_a_missing_network_or_router_is_an_error():
    answering = Answering(NAMES.router)
    await answering.serve_http(never, [])
    with pytest.raises(NotPermitted, match=NAMES.network(1)):
        await answering.open(1)
    with pytest.raises(NotPermitted, match=NAMES.router):
        await Answering().serve_http(never, [])
