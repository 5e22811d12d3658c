"""Exponential back-off by key, token buckets, and client-go's combination; time is an argument."""

import math
from collections.abc import Collection

FIRST_RETRY = 60.0  # seconds until the first retry of an action without effect
MAX_RETRY_DELAY = 1800.0  # seconds; the limit of the doubling pause


class TokenBucket:
    """A token bucket that allows ``rate`` actions a second, and a burst of ``burst`` actions."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._updated: float | None = None

    def reserve(self, now: float, longest: float = math.inf) -> float:
        """Take a token, even if none is left. Returns the seconds to wait, at most ``longest``."""
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
        """Take one token from the bucket of this key if there is one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst)
        return bucket.take(now)

    def forget(self, key: str) -> None:
        """Remove the bucket of a key that is gone or needs no limit."""
        self._buckets.pop(key, None)


class RetryLimiter:
    """client-go's default delay: exponential by key, from ``base`` to ``cap`` seconds, or a common bucket."""

    def __init__(self, base: float = 0.005, cap: float = 1000.0, bucket: TokenBucket | None = None) -> None:
        self._base = base
        self._cap = cap
        self._bucket = bucket or TokenBucket(10, 100)
        self._failures: dict[str, int] = {}

    def delay(self, key: str, now: float) -> float:
        """Count one failure of the key, and return the seconds until its next attempt."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Above 2^60, the cap applies anyway, and floats would overflow at 2^1024.
        exponential = min(self._cap, self._base * 2.0 ** min(failures, 60))
        # A user whose keys always fail must not make all other keys wait forever.
        return max(exponential, self._bucket.reserve(now, self._cap))

    def forget(self, key: str) -> None:
        """Reset the failures of a key that succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """The number of failures of the key since the last ``forget``."""
        return self._failures.get(key, 0)


def node_limiter() -> RetryLimiter:
    """client-go's delays for Nodes, up to 5 minutes.

    Upstream has longer delays, but retries at each update by a kubelet, at least every 5 minutes.
    """
    return RetryLimiter(cap=300.0)


def slow_limiter() -> RetryLimiter:
    """Upstream's delays for Services, which we also use for routes: 5 s, doubled up to 5 minutes."""
    return RetryLimiter(5.0, 300.0)


class EffectBackoff:
    """Delays the retries of actions that fail or have no effect.

    The UID of an object, an action (``what``) and the desired value identify the attempts. Call :meth:`tried`
    for each attempt, and :meth:`forget` when the observed state is the desired state. An action that never
    works is attempted six times in the first hour, and twice in each later hour.
    """

    def __init__(self) -> None:
        self._pauses: dict[tuple[str, str], tuple[object, float, float]] = {}

    def wait(self, uid: str, what: str, now: float, wanted: object = None) -> float:
        """Seconds until the next attempt may be made; 0 = now."""
        value, _, due = self._pauses.get((uid, what), (wanted, 0.0, now))
        return max(0.0, due - now) if value == wanted else 0.0

    def tried(self, uid: str, what: str, now: float, wanted: object = None) -> None:
        """Record an attempt."""
        value, last, _ = self._pauses.get((uid, what), (wanted, 0.0, now))
        pause = next_retry(last if value == wanted else 0.0)
        self._pauses[uid, what] = wanted, pause, now + pause

    def forget(self, uid: str, what: str) -> None:
        """Remove the delay, because the attempt had its effect."""
        self._pauses.pop((uid, what), None)

    def keep(self, uids: Collection[str]) -> None:
        """Remove the delays of all objects except those with these UIDs."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key[0] in uids}


def next_retry(pause: float, first: float = FIRST_RETRY, longest: float = MAX_RETRY_DELAY) -> float:
    """The pause after an attempt without effect, from the previous pause; all in seconds."""
    return min(longest, max(first, pause * 2))


class Backoff:
    """Pauses between failed attempts: jittered, growing from ``base`` to ``cap``. All times are in seconds.

    The defaults are those of client-go's reflector: pauses double from 0.8 s to 30 s, jitter adds up to 100
    %, and the pauses restart if the last failure is more than two minutes ago.
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
        """Restart with the shortest pause, because an attempt succeeded."""
        self._attempts = 0
