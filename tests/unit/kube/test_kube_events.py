import asyncio
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.errors import ConnectionFailed, Forbidden
from ccm.kube.events import Correlator, EventRecorder, Note
from ccm.kube.objects import ObjectReference
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

NODE = ObjectReference(api_version="v1", kind="Node", name="a", uid="u")
SERVICE = ObjectReference(api_version="v1", kind="Service", namespace="shop", name="web", uid="w")
START = datetime(2026, 11, 21, tzinfo=UTC)
EVENTS = "/api/v1/events"


def _wall_clock() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@pytest.fixture
def server() -> MemoryTransport:
    return MemoryTransport()


@pytest.fixture
async def recorder(server):
    made = EventRecorder(server, "test-controller", host="node-1", now=_wall_clock)
    task = asyncio.create_task(made.outbox.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_secrets_are_taken_out_before_a_message_is_cut(server):
    token = "t0ps3cret" * 7
    recorder = EventRecorder(server, "c", redact=lambda text: text.replace(token, "[secret]"))
    sending = asyncio.create_task(recorder.outbox.run())
    recorder.for_component("d").event(NODE, "Warning", "Failed", "x" * 1000 + token + "\u00e4" * 5000)
    assert await recorder.outbox.flush(1)
    sending.cancel()
    (event,) = server.all(EVENTS)
    assert event["message"] == "x" * 1000 + "[secret]" + "\u00e4" * 8


async def test_event_is_complete(server, recorder):
    recorder.event(SERVICE, "Warning", "SyncFailed", "it did not work")
    assert await recorder.outbox.flush(1)
    (event,) = server.all("/api/v1/namespaces/shop/events")
    del event["metadata"]["uid"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"web.{int(START.timestamp() * 1e6) * 1000:x}",
            "namespace": "shop",
            "creationTimestamp": event["metadata"]["creationTimestamp"],
            "resourceVersion": "2",
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "w",
        },
        "type": "Warning",
        "reason": "SyncFailed",
        "message": "it did not work",
        "source": {"component": "test-controller", "host": "node-1"},
        "reportingComponent": "test-controller",
        "count": 1,
        "firstTimestamp": "2026-11-21T00:00:00Z",
        "lastTimestamp": "2026-11-21T00:00:00Z",
    }  # fmt: skip


async def test_repetition_counts_up(server, recorder):
    for _ in range(3):
        recorder.event(NODE, "Normal", "Synced", "x")
        await asyncio.sleep(60)
    (event,) = server.all(EVENTS)
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3, "2026-11-21T00:00:00Z", "2026-11-21T00:02:00Z",
    )  # fmt: skip


async def test_event_that_the_server_forgot_is_new_again(server, recorder):
    recorder.event(NODE, "Normal", "Synced", "x")
    await recorder.outbox.flush(1)
    server.remove(f"/api/v1/namespaces/default/events/{server.all(EVENTS)[0]['metadata']['name']}")
    await asyncio.sleep(1)
    recorder.event(NODE, "Normal", "Synced", "x")
    await recorder.outbox.flush(1)
    (event,) = server.all(EVENTS)
    assert event["count"] == 1


async def test_many_similar_messages_become_one(server, recorder):
    for number in range(15):
        recorder.event(NODE, "Warning", "Failed", f"try {number}")
        await asyncio.sleep(1)
    events = server.all(EVENTS)
    assert len(events) == 11
    (folded,) = [event for event in events if event["message"].startswith("(combined")]
    assert (folded["count"], folded["message"]) == (5, "(combined from similar events): try 14")


async def test_talkative_object_is_muted_but_not_the_others(server, recorder):
    for _ in range(100):
        recorder.event(NODE, "Normal", "Synced", "x")
    recorder.event(SERVICE, "Normal", "Synced", "x")
    await recorder.outbox.flush(1)
    counts = {event["involvedObject"]["name"]: event["count"] for event in server.all(EVENTS)}
    assert counts == {"a": 25, "web": 1}


async def test_components_share_a_queue_but_not_a_count(server, recorder):
    other = recorder.for_component("other")
    recorder.event(NODE, "Normal", "Synced", "x")
    other.event(NODE, "Normal", "Synced", "x")
    await asyncio.sleep(0.1)
    recorder.event(NODE, "Normal", "Synced", "y")
    assert await other.outbox.flush(1)
    found = sorted((event["source"]["component"], event["message"]) for event in server.all(EVENTS))
    assert found == [("other", "x"), ("test-controller", "x"), ("test-controller", "y")]


async def test_broken_connection_is_tried_again(server, recorder):
    server.fail(ConnectionFailed(), verb="create", times=2)
    recorder.event(NODE, "Normal", "Synced", "x")
    assert not await recorder.outbox.flush(5)
    assert await recorder.outbox.flush(60)
    assert len(server.all(EVENTS)) == 1


async def test_lost_answer_makes_no_second_event(server, recorder):
    server.fail(ConnectionFailed(), verb="create", after=True)
    recorder.event(NODE, "Normal", "Synced", "x")
    await recorder.outbox.flush(60)
    recorder.event(NODE, "Normal", "Synced", "x")
    await recorder.outbox.flush(60)
    (event,) = server.all(EVENTS)
    assert event["count"] == 2


@pytest.mark.parametrize("error", [Forbidden(403), ValueError("odd")], ids=["forbidden", "a bug"])
async def test_an_event_that_can_not_be_sent_is_dropped_and_the_next_is_sent(server, recorder, error):
    server.fail(error, verb="create")
    recorder.event(NODE, "Normal", "Synced", "x")
    recorder.event(NODE, "Normal", "Synced", "y")
    assert await recorder.outbox.flush(1)
    assert [event["message"] for event in server.all(EVENTS)] == ["y"]


async def test_recording_never_waits_and_forgets_the_oldest(server):
    recorder = EventRecorder(server, "c")
    for number in range(1100):
        recorder.event(ObjectReference(kind="Node", name=f"n{number}"), "Normal", "Synced", "x")
    task = asyncio.create_task(recorder.outbox.run())
    await recorder.outbox.flush(5)
    task.cancel()
    names = {event["involvedObject"]["name"] for event in server.all(EVENTS)}
    assert len(names) == 1000
    assert "n1099" in names
    assert "n0" not in names


@pytest.mark.parametrize("name", ["n" * 253, "n." * 117 + "n" * 19, "n" * 235 + "-n", "n" * 236])
async def test_events_of_objects_with_long_names(server, recorder, name: str):
    reference = ObjectReference(api_version="v1", kind="Node", name=name, uid="u")
    recorder.event(reference, "Normal", "Synced", "well")
    assert await recorder.outbox.flush(1)
    (event,) = server.all(EVENTS)
    begin, _, stamp = event["metadata"]["name"].rpartition(".")
    assert len(event["metadata"]["name"]) <= 253
    assert name.startswith(begin)
    assert (begin[-1], int(stamp, 16) > 0) == ("n", True)
    assert event["involvedObject"]["name"] == name


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 400)), max_size=80))
def test_no_object_gets_more_than_its_share(messages):
    correlator, now, sent = Correlator(), 0.0, 0
    for message, pause in messages:
        now += pause
        note = Note("c", NODE, "Normal", "R", str(message), START)
        sent += correlator.correlate(note, now) is not None
    assert sent <= 25 + now / 300 + 1e-6


def test_memory_does_not_grow_with_events():
    """Thousands of objects are remembered, and tenants choose the messages about their objects."""
    correlator, kept = Correlator(), []
    tracemalloc.start()
    try:
        for number in range(2000):
            messages = f"{number} ".ljust(1024, "x")
            service = ObjectReference(kind="Service", namespace="shop", name=f"s{number // 10}", uid="u")
            kept.append(correlator.correlate(Note("c", service, "Warning", "R", messages, START), 0.0)[1])
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 1_000_000
