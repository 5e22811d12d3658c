"""Exponential back-off by key, token buckets, and client-go's combination; time is an argument."""

import math
from collections.abc import Collection

FIRST_RETRY = 60.0  # seconds until something that had no effect is tried again
MAX_RETRY_DELAY = 1800.0  # seconds, which the pause grows to by doubling


class TokenBucket:
    """Lets ``rate`` things a second pass, and ``burst`` at once after a pause."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._updated: float | None = None

    def reserve(self, now: float, longest: float = math.inf) -> float:
        """Take a token, in advance if necessary; returns the seconds to wait, at most ``longest``."""
        self._refill(now)
        self._tokens = max(self._tokens - 1, -longest * self._rate)
        return max(0.0, -self._tokens / self._rate)

    def take(self, now: float) -> bool:
        """Take one token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self, now: float) -> None:
        if self._updated is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._updated) * self._rate)
        self._updated = now


class KeyedBuckets:
    """A :class:`TokenBucket` for each key, full when the key is first seen."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, key: str, now: float) -> bool:
        """Take one token of this key's if there is one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst)
        return bucket.take(now)

    def forget(self, key: str) -> None:
        """The key is gone, or has no need of limits any more."""
        self._buckets.pop(key, None)


class RetryLimiter:
    """client-go's default delay: exponential by key, from ``base`` to ``cap`` seconds, or a common bucket."""

    def __init__(self, base: float = 0.005, cap: float = 1000.0, bucket: TokenBucket | None = None) -> None:
        self._base = base
        self._cap = cap
        self._bucket = bucket or TokenBucket(10, 100)
        self._failures: dict[str, int] = {}

    def delay(self, key: str, now: float) -> float:
        """Count one failure of the key and return the seconds until its next try."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Beyond 2^60 the cap holds anyhow, and floats would overflow at 2^1024.
        exponential = min(self._cap, self._base * 2.0 ** min(failures, 60))
        # A user whose keys always fail must not make all other keys wait forever.
        return max(exponential, self._bucket.reserve(now, self._cap))

    def forget(self, key: str) -> None:
        """The key succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Failures of the key since it was forgotten."""
        return self._failures.get(key, 0)


def node_limiter() -> RetryLimiter:
    """client-go's delays for Nodes, up to 5 minutes.

    Upstream's go beyond, but it tries again at each report of a kubelet, and these come as often at least.
    """
    return RetryLimiter(cap=300.0)


def slow_limiter() -> RetryLimiter:
    """Upstream's delays for Services, and ours for routes: 5 s, doubled up to 5 minutes."""
    return RetryLimiter(5.0, 300.0)


class EffectBackoff:
    """Spaces out work that is refused, or is accepted and changes nothing.

    Work is an object's UID, what is done to the object, and the value that is wanted. Note each attempt with
    :meth:`tried`, and call :meth:`forget` when the observed state is the wanted one. So an attempt that works
    costs nothing, and one that never works is made six times in its first hour and twice in each later one.
    """

    def __init__(self) -> None:
        self._pauses: dict[tuple[str, str], tuple[object, float, float]] = {}

    def wait(self, uid: str, what: str, now: float, wanted: object = None) -> float:
        """Seconds until the next attempt may be made; 0 = now."""
        value, _, due = self._pauses.get((uid, what), (wanted, 0.0, now))
        return max(0.0, due - now) if value == wanted else 0.0

    def tried(self, uid: str, what: str, now: float, wanted: object = None) -> None:
        """An attempt was made."""
        value, last, _ = self._pauses.get((uid, what), (wanted, 0.0, now))
        pause = next_retry(last if value == wanted else 0.0)
        self._pauses[uid, what] = wanted, pause, now + pause

    def forget(self, uid: str, what: str) -> None:
        """The attempt had its effect."""
        self._pauses.pop((uid, what), None)

    def keep(self, uids: Collection[str]) -> None:
        """Forget the objects that are gone, by the UIDs of those that are there."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key[0] in uids}


def next_retry(pause: float, first: float = FIRST_RETRY, longest: float = MAX_RETRY_DELAY) -> float:
    """The pause after an attempt without effect, by the pause before it; all in seconds."""
    return min(longest, max(first, pause * 2))


class Backoff:
    """Pauses between failed attempts: jittered, growing from ``base`` to ``cap``. All times are in seconds.

    client-go's reflector: 0.8 s to 30 s, doubled, each pause stretched by up to as much again, and back to
    the start when the last failure is two minutes ago.
    """

    def __init__(self, base: float = 0.8, cap: float = 30.0, reset_after: float = 120.0) -> None:
        self._base = base
        self._cap = cap
        self._reset_after = reset_after
        self._attempts = 0
        self._last: float | None = None

    def next(self, now: float, random: float) -> float:
        """The seconds to pause after a failure at ``now``; ``random`` in [0, 1) stretches the pause."""
        if self._last is not None and now - self._last > self._reset_after:
            self._attempts = 0
        self._last = now
        pause = min(self._cap, self._base * 2.0 ** min(self._attempts, 60))
        self._attempts += 1
        return pause * (1 + random)

    def reset(self) -> None:
        """It worked meanwhile: the next failure is the first."""
        self._attempts = 0
