import asyncio

import pytest

from ccm.kube.errors import (
    AlreadyExists,
    Conflict,
    ConnectionFailed,
    Gone,
    Invalid,
    KubernetesError,
    NotFound,
    ServerError,
)
from ccm.kube.objects import Node, ObjectMeta, Service
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/shop/services"


@pytest.fixture
def server() -> MemoryTransport:
    memory = MemoryTransport()
    memory.put(NODES, Node(metadata=ObjectMeta(name="a", labels={"x": "y"})))
    return memory


async def _pages(server: MemoryTransport, path: str, kind=Node, **more):
    return [page async for page in server.list_pages(path, kind, **more)]


async def _changes(server: MemoryTransport, since: str, timeout: float = 1, path: str = NODES):
    return [change async for change in server.watch(path, Node, since, timeout=timeout)]


async def test_created_objects_get_identity(server):
    node = await server.create(NODES, {"metadata": {"name": "b"}}, Node)
    assert node.metadata.uid
    assert node.metadata.creation_timestamp is not None
    assert int(node.metadata.resource_version) > 1
    with pytest.raises(AlreadyExists):
        await server.create(NODES, {"metadata": {"name": "b"}}, Node)
    with pytest.raises(Invalid):
        await server.create(NODES, {"metadata": {}}, Node)


async def test_absent_objects(server):
    for attempt in (
        server.get(f"{NODES}/z", Node),
        server.patch(f"{NODES}/z", {}, Node),
        server.update(f"{NODES}/z", {}, Node),
        server.delete(f"{NODES}/z"),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_patch_changes_and_counts_versions(server):
    before = await server.get(f"{NODES}/a", Node)
    after = await server.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)
    assert after.spec.provider_id == "x"
    assert after.metadata.labels == {"x": "y"}
    assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
    again = await server.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)
    assert again == after


async def test_old_resource_version_is_a_conflict(server):
    old = (await server.get(f"{NODES}/a", Node)).metadata.resource_version
    await server.patch(f"{NODES}/a", {"metadata": {"labels": {"b": "c"}}}, Node)
    body = {"metadata": {"resourceVersion": old}, "spec": {"providerID": "x"}}
    with pytest.raises(Conflict):
        await server.patch(f"{NODES}/a", body, Node)
    with pytest.raises(Conflict):
        await server.update(f"{NODES}/a", body, Node)
    current = server.read(f"{NODES}/a")
    current["spec"] = {"providerID": "z"}
    assert (await server.update(f"{NODES}/a", current, Node)).spec.provider_id == "z"


async def test_status_and_the_rest_are_written_apart(server):
    body = {"spec": {"providerID": "x"}, "status": {"addresses": [{"type": "Hostname", "address": "h"}]}}
    main = await server.patch(f"{NODES}/a", body, Node)
    assert (main.spec.provider_id, main.status.addresses) == ("x", ())
    body["spec"]["providerID"] = "y"
    status = await server.patch(f"{NODES}/a/status", body, Node)
    assert status.spec.provider_id == "x"
    assert status.status.addresses[0].address == "h"


async def test_identity_can_not_be_patched(server):
    uid = server.read(f"{NODES}/a")["metadata"]["uid"]
    with pytest.raises(Invalid, match="field is immutable"):
        await server.patch(f"{NODES}/a", {"metadata": {"uid": "other"}, "spec": {"providerID": "x"}}, Node)
    node = await server.patch(f"{NODES}/a", {"metadata": {"uid": uid, "name": "other"}}, Node)
    assert (node.metadata.uid, node.metadata.name, node.spec.provider_id) == (uid, "a", "")


async def test_finalizers_hold_deletion_back(server):
    server.put(SERVICES, Service(metadata=ObjectMeta(name="web", finalizers=("f",))))
    path = f"{SERVICES}/web"
    await server.delete(path)
    assert (await server.get(path, Service)).metadata.deletion_timestamp is not None
    await server.delete(path)
    await server.patch(path, {"metadata": {"finalizers": []}}, Service)
    with pytest.raises(NotFound):
        await server.get(path, Service)


async def test_uid_precondition(server):
    with pytest.raises(Conflict):
        await server.delete(f"{NODES}/a", uid="other")
    await server.delete(f"{NODES}/a", uid=server.read(f"{NODES}/a")["metadata"]["uid"])
    assert server.all(NODES) == []


async def test_list_is_of_one_moment(server):
    for number in range(5):
        server.put(NODES, {"metadata": {"name": f"n{number}"}})
    names = []
    async for page in server.list_pages(NODES, Node, limit=2):
        names += [node.metadata.name for node in page.items]
        server.put(NODES, {"metadata": {"name": f"late{len(names)}"}})
    assert names == ["a", "n0", "n1", "n2", "n3", "n4"]


async def test_list_that_takes_too_long_is_gone(server):
    server.put(NODES, {"metadata": {"name": "b"}})
    pages = server.list_pages(NODES, Node, limit=1)
    await anext(pages)
    server.put(NODES, {"metadata": {"name": "c"}})
    server.compact()
    with pytest.raises(Gone):
        await anext(pages)


async def test_watch_tells_what_happened_since(server):
    since = (await _pages(server, NODES))[0].resource_version
    server.put(NODES, {"metadata": {"name": "b"}})
    await server.patch(f"{NODES}/a", {"metadata": {"labels": {"q": "r"}}}, Node)
    server.put(SERVICES, {"metadata": {"name": "web"}})
    server.remove(f"{NODES}/b")
    changes = await _changes(server, since)
    assert [(change.type, change.metadata.name) for change in changes] == [
        ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"),
    ]  # fmt: skip
    versions = [int(change.metadata.resource_version) for change in changes]
    assert versions == sorted(versions)
    assert server.watches == 0


async def test_watch_waits_for_changes(server):
    watching = asyncio.create_task(_changes(server, "2", timeout=60))
    await asyncio.sleep(10)
    server.put(NODES, {"metadata": {"name": "b"}})
    server.bookmark()
    assert [change.type for change in await watching] == ["ADDED", "BOOKMARK"]


async def test_failures_before_and_after_the_effect(server):
    server.fail(ServerError(500), verb="patch", prefix=f"{NODES}/a")
    server.fail(ConnectionFailed(), verb="patch", after=True)
    with pytest.raises(ServerError):
        await server.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)
    assert "spec" not in server.read(f"{NODES}/a")
    with pytest.raises(ConnectionFailed):
        await server.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)
    assert server.read(f"{NODES}/a")["spec"] == {"providerID": "x"}
    await server.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)


async def test_odd_object_is_an_error_of_its_own(server):
    server.put(NODES, {"metadata": {"name": "odd"}, "spec": {"taints": 5}})
    with pytest.raises(KubernetesError):
        await server.get(f"{NODES}/odd", Node)
    page = (await _pages(server, NODES))[0]
    assert ([n.metadata.name for n in page.items], [m.name for m in page.undecodable]) == (["a"], ["odd"])
