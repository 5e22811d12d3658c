"""Delegated authentication and authorization: the API server decides about requests.

A TokenReview checks a bearer token, and a SubjectAccessReview checks a request. Both results are cached for
some seconds. TLS verifies client certificates. Other clients are anonymous.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from ccm.clock import loop_time
from ccm.kube.errors import ConnectionFailed, KubernetesError, ServerError, TooManyRequests
from ccm.kube.events import remember
from ccm.kube.objects import Part
from ccm.kube.protocol import Transport

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MASTERS = "system:masters"
_TIMEOUT = 10.0
_TRIES = 5
_PAUSE = 0.5
_GROWTH = 1.5
_REMEMBERED = 1024

log = structlog.stdlib.get_logger(__name__)
V = TypeVar("V")


class User(Part, frozen=True):
    """The user of a request, as in a TokenReview's status."""

    username: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


class _TokenStatus(Part, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(Part, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Part, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Part, frozen=True):
    status: _AccessStatus = _AccessStatus()


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class _Memory(Generic[V]):
    """A cache of results with an expiry. If the cache is full, the oldest result is removed."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        until, answer = self._answers.get(key, (0.0, None))
        return answer if loop_time() < until else None

    def put(self, key: Hashable, answer: V, seconds: float) -> V:
        return remember(self._answers, key, (loop_time() + seconds, answer), most=_REMEMBERED)[1]


@dataclass(frozen=True, slots=True)
class _Answer:
    user: User | None


class TokenReviewer:
    """Finds the user of a bearer token. Results are cached for ``ttl`` seconds."""

    def __init__(self, transport: Transport, ttl: float) -> None:
        self._transport = transport
        self._ttl = ttl
        self._memory: _Memory[_Answer] = _Memory()

    async def user_of(self, token: str) -> User | None:
        """The user of a token; None if the cluster rejects the token. Raises KubernetesError."""
        if not token.isascii():
            return None  # a header may contain any bytes, but tokens are ASCII
        key = hashlib.sha256(token.encode()).digest()
        known = self._memory.get(key)
        if known is not None:
            return known.user
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        review = await _ask(self._transport, TOKEN_REVIEWS, body, _TokenReview)
        answer = review.status.user if review.status.authenticated else None
        return self._memory.put(key, _Answer(answer), self._ttl).user


class AccessReviewer:
    """Checks the permissions of users. The cache has separate TTLs for allowed and denied requests."""

    def __init__(self, transport: Transport, allowed_ttl: float, denied_ttl: float) -> None:
        self._transport = transport
        self._ttls = {True: allowed_ttl, False: denied_ttl}
        self._memory: _Memory[bool] = _Memory()

    async def allowed(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may use this verb on this path. Raises KubernetesError."""
        if MASTERS in user.groups:
            return True
        key = (user, verb, path)
        known = self._memory.get(key)
        if known is not None:
            return known
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.username,
                "groups": list(user.groups),
                "uid": user.uid,
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        }
        review = await _ask(self._transport, ACCESS_REVIEWS, body, _AccessReview)
        allowed = review.status.allowed and not review.status.denied
        return self._memory.put(key, allowed, self._ttls[allowed])


def user_of_certificate(certificate: Mapping[str, Any] | None) -> User | None:
    """The user in a verified client certificate: the common name, and the organizations as groups."""
    names: dict[str, list[str]] = {}
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            names.setdefault(name, []).append(value)
    if "commonName" not in names:
        return None
    groups = (*names.get("organizationName", ()), "system:authenticated")
    return User(names["commonName"][-1], groups)


async def _ask(transport: Transport, path: str, body: Mapping[str, Any], kind: type[V]) -> V:
    """Create a review, with retries within ten seconds."""
    pause = _PAUSE
    try:
        async with asyncio.timeout(_TIMEOUT):
            for _ in range(_TRIES - 1):
                try:
                    return await transport.create(path, body, kind)
                except (ConnectionFailed, ServerError, TooManyRequests) as error:
                    log.debug("review_failed", path=path, error=str(error))
                await asyncio.sleep(pause)
                pause *= _GROWTH
            return await transport.create(path, body, kind)
    except TimeoutError as error:
        raise KubernetesError(message=f"no response from {path} within {_TIMEOUT:.0f} s") from error
