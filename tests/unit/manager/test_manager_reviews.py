import asyncio

import pytest

from ccm.kube.errors import ConnectionFailed, Forbidden, KubernetesError
from ccm.manager.serving.reviews import (
    ACCESS_REVIEWS,
    ANONYMOUS,
    TOKEN_REVIEWS,
    AccessReviewer,
    TokenReviewer,
    User,
    user_of_certificate,
)
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime


@pytest.fixture
def server() -> MemoryTransport:
    memory = MemoryTransport()

    def token_review(body):
        if body["spec"]["token"] != "good":
            return {**body, "status": {"error": "unknown token"}}
        user = {"username": "prometheus", "uid": "1", "groups": ["system:authenticated"]}
        return {**body, "status": {"authenticated": True, "user": user}}

    def access_review(body):
        return {**body, "status": {"allowed": body["spec"]["user"] == "prometheus"}}

    memory.answer(TOKEN_REVIEWS, token_review)
    memory.answer(ACCESS_REVIEWS, access_review)
    return memory


async def test_a_token_of_impossible_bytes_is_refused(server):
    """As aiohttp hands on what stands in a header."""
    assert await TokenReviewer(server, 10).user_of("\udcff\udcfe") is None


async def test_token_is_reviewed_and_believed_for_a_while(server):
    reviewer = TokenReviewer(server, ttl=10)
    for _ in range(3):
        assert await reviewer.user_of("good") == User("prometheus", ("system:authenticated",), "1")
        assert await reviewer.user_of("bad") is None
    assert len(server.requests) == 2
    await asyncio.sleep(11)
    await reviewer.user_of("good")
    assert len(server.requests) == 3


async def test_access_is_reviewed_and_believed_for_a_while(server):
    reviewer = AccessReviewer(server, allowed_ttl=10, denied_ttl=2)
    prometheus = User("prometheus")
    for _ in range(2):
        assert await reviewer.allowed(prometheus, "get", "/metrics")
        assert not await reviewer.allowed(ANONYMOUS, "get", "/metrics")
    assert len(server.requests) == 2
    assert server.requests[0].body["spec"] == {
        "user": "prometheus",
        "groups": [],
        "uid": "",
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }
    await asyncio.sleep(3)
    await reviewer.allowed(prometheus, "get", "/metrics")
    await reviewer.allowed(ANONYMOUS, "get", "/metrics")
    assert len(server.requests) == 3


async def test_masters_need_no_review(server):
    assert await AccessReviewer(server, 10, 10).allowed(User("x", ("system:masters",)), "get", "/metrics")
    assert server.requests == []


async def test_broken_connection_is_tried_again(server):
    server.fail(ConnectionFailed(), times=3)
    assert await TokenReviewer(server, 10).user_of("good")
    server.fail(ConnectionFailed(message="refused"), times=100)
    with pytest.raises(ConnectionFailed):
        await TokenReviewer(server, 10).user_of("good")


async def test_refusal_is_not_tried_again(server):
    server.fail(Forbidden(403, message="no right to review"))
    with pytest.raises(Forbidden):
        await TokenReviewer(server, 10).user_of("good")
    assert len(server.requests) == 1


async def test_silent_server_ends_in_time(server):
    server.latency = 3600
    with pytest.raises(KubernetesError, match="within 10 s"):
        await TokenReviewer(server, 10).user_of("good")


async def test_memory_is_bounded(server):
    reviewer = TokenReviewer(server, ttl=1000)
    for number in range(1100):
        await reviewer.user_of(str(number))
    assert len(reviewer._memory._answers) == 1024


def test_user_of_a_certificate():
    certificate = {
        "subject": (
            (("organizationName", "system:masters"),),
            (("organizationName", "b"),),
            (("commonName", "me"),),
        )
    }
    assert user_of_certificate(certificate) == User("me", ("system:masters", "b", "system:authenticated"))
    assert user_of_certificate(None) is None
    assert user_of_certificate({}) is None
    assert user_of_certificate({"subject": ((("organizationName", "x"),),)}) is None
