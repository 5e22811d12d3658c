import asyncio
import contextlib
import os
import shutil
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio

from k3s_standin import bootstrap, control_plane, datastore
from k3s_standin.api import ApiError
from k3s_standin.children import Children
from k3s_standin.control_plane import ControlPlane, EtcdMember, Ports
from k3s_standin.datastore import REMOVED
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Learners, plan_join, remove_node
from k3s_standin.pki import Pki
from k3s_standin.reset import restore
from k3s_standin.server import start_etcd
from k3s_standin.snapshots import SnapshotOptions, Snapshots, decompressed, table
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import ETCDUTL
from sandbox.site import cache_directory
from tests.ports import free_port
from tests.waiting import until

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def when_healthy(ask, *arguments):
    """Change the members; etcd refuses until the last one that joined has been healthy for five seconds."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await asyncio.to_thread(ask, *arguments)
            except ApiError as error:
                if "unhealthy cluster" not in str(error):
                    raise
                await asyncio.sleep(0.1)


class Servers:
    """Servers m1, m2, … at 127.0.0.2, 127.0.0.3, …, with only etcd and the same authorities."""

    def __init__(self, toolchain, folder, stack):
        self.toolchain, self.folder, self.stack = toolchain, folder, stack
        self.pki = Pki(folder / "tls")
        self.pki.ensure(("localhost",), tuple(f"127.0.0.{number}" for number in range(2, 8)))
        self.planes, self.children = {}, {}

    def plane(self, number, cluster=""):
        folder = self.folder / f"m{number}"
        member = EtcdMember(f"m{number}-0000000{number}", f"127.0.0.{number + 1}", cluster)
        ports = self.planes[number].ports if number in self.planes else Ports(1, free_port(), free_port())
        self.planes[number] = ControlPlane(
            folder, self.pki, "127.0.0.1", "127.0.0.1", "10.42.0.0/16", "10.43.0.0/16", ports, member=member
        )
        return self.planes[number]

    def etcd(self, number):
        return datastore.client(self.planes[number])

    async def start(self, number, cluster=""):
        plane = self.plane(number, cluster)
        children = Children(self.toolchain.bin, plane.data / "logs")
        self.stack.push_async_callback(children.stop)
        others = [Learners(self.etcd(one)) for one in self.children]
        self.children[number] = children
        looking = asyncio.create_task(self._look(others))
        try:
            await start_etcd(children, plane)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def enlist(self, number, by=1):
        plane = self.plane(number)
        plan = plan_join(await asyncio.to_thread(self.etcd(by).members), plane.member.name, plane.peer_url)
        if plan.add:
            await when_healthy(self.etcd(by).add_learner, plane.peer_url)
        await self.start(number, plan.cluster)

    async def _look(self, learners):
        while True:
            for one in learners:
                with contextlib.suppress(ApiError):
                    await asyncio.to_thread(one.look)
            await asyncio.sleep(0.1)

    async def voters(self, by):
        async with asyncio.timeout(60):
            while True:
                try:
                    members = await asyncio.to_thread(self.etcd(by).members)
                    return sorted(one.node for one in members if not one.learner)
                except ApiError:
                    await asyncio.sleep(0.1)


@pytest_asyncio.fixture
async def servers(kubernetes, tmp_path):
    async with AsyncExitStack() as stack:
        yield Servers(kubernetes, tmp_path, stack)


async def test_three_members_work_without_the_third(servers):
    await servers.start(1)
    await servers.enlist(2)
    await servers.enlist(3, by=2)
    assert await servers.voters(by=3) == ["m1", "m2", "m3"]

    await servers.children[1].stop()

    assert await servers.voters(by=2) == ["m1", "m2", "m3"]
    first = servers.planes[1].member
    await asyncio.to_thread(remove_node, servers.etcd(2), first.name, first.address)
    assert await servers.voters(by=3) == ["m2", "m3"]


async def test_joining_by_a_snapshot_is_fast(servers):
    await servers.start(1)
    for number in range(200):  # etcd keeps no log for newcomers beyond a hundred
        await asyncio.to_thread(servers.etcd(1).put, f"/{number}", b"")

    await servers.enlist(2)

    assert {one.name for one in servers.etcd(1).members()} == {"m1-00000001", "m2-00000002"}
    assert "failed to publish" not in servers.children[2].log("etcd").read_text()


async def test_a_removed_member_ends_with_a_message(servers):
    await servers.start(1)
    await servers.enlist(2)
    leaving = servers.planes[2].member

    await when_healthy(remove_node, servers.etcd(1), leaving.name, leaving.address)

    await until(servers.children[2].ended)
    assert REMOVED in servers.children[2].tail("etcd")
    assert await servers.voters(by=1) == ["m1"]


async def test_kine_is_migrated_to_etcd(servers):
    plane = servers.plane(1)
    single = replace(plane, member=None)
    children = Children(servers.toolchain.bin, plane.data / "logs")
    await children.start(control_plane.commands(single)["etcd"])
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(datastore.votes, single, EtcdMember("default", "127.0.0.1")):
            children.check()
            await asyncio.sleep(0.1)
    await children.stop()

    await servers.start(1)
    await servers.enlist(2)
    assert await servers.voters(by=2) == ["m1", "m2"]


async def etcdutl():
    """The program that restores; it is small and needs no C."""
    cache = cache_directory(os.environ)
    return (await asyncio.to_thread(toolchain.ensure, cache, print, (ETCDUTL,))).bin


async def test_restoring_a_snapshot_forgets_other_members(servers, tmp_path):
    await servers.start(1)
    await servers.enlist(2)
    etcd, plane = servers.etcd(1), servers.planes[1]
    await asyncio.to_thread(bootstrap.keep, plane, etcd, "the-token")
    await asyncio.to_thread(etcd.put, "/word", b"before")
    folder = tmp_path / "snapshots"
    folder.mkdir()
    times = iter(range(1_700_000_000, 1_700_000_100))
    taken = Snapshots(etcd, "m1", SnapshotOptions(folder, compress=True), now=lambda: next(times))

    saved = await asyncio.to_thread(taken.answer, {"operation": "save", "name": ["on-demand"]})
    assert saved == {"created": ["on-demand-m1-1700000000.zip"], "deleted": []}
    await asyncio.to_thread(etcd.put, "/word", b"after")
    listed = await asyncio.to_thread(taken.answer, {"operation": "list"})
    heading, line = table(listed).splitlines()
    assert heading.split() == ["Name", "Location", "Size", "Created"]
    path = folder / "on-demand-m1-1700000000.zip"
    assert line.split() == [path.name, f"file://{path}", str(path.stat().st_size), "2023-11-14T22:13:20Z"]
    assert path.stat().st_mode & 0o777 == 0o600

    await asyncio.gather(*(children.stop() for children in servers.children.values()))
    member = replace(plane.member, alone=True)
    data = servers.folder / "m1" / "db" / "etcd"
    shutil.rmtree(data)
    restored = replace(plane, member=member)
    await asyncio.to_thread(restore, decompressed(path), member, data, await etcdutl(), plane.ports.etcd_peer)
    children = Children(servers.toolchain.bin, plane.data / "logs")
    servers.stack.push_async_callback(children.stop)
    servers.children[1] = children
    await start_etcd(children, restored)

    assert await asyncio.to_thread(etcd.below, "/word") == {"/word": b"before"}
    assert await servers.voters(by=1) == ["m1"]
    key = plane.pki.service_account_key
    secret = key.read_text()
    key.write_text("lost")
    with pytest.raises(K3sError, match="encrypted with different token"):
        await asyncio.to_thread(bootstrap.recover, restored, etcd, "another")
    await asyncio.to_thread(bootstrap.recover, restored, etcd, "the-token")
    assert key.read_text() == secret
