"""How often load balancers may change because the owner changes Services, or another client our writes.

All Services share the cloud's requests, and a tenant may write its Service each second, or create and delete
Services all day. So each Service has a token bucket that refills slowly: enough for manual changes, too
little to delay other Services. Each namespace has a bucket too, ten times as large, with the same refill
rate.

If another client overwrites what we wrote into a Service, the first overwrite is repaired at once. Another
controller might overwrite each repair, so each further one waits longer. Time is an argument, in seconds of
any monotonic clock.
"""

from ccm.kube.backoff import next_retry
from ccm.kube.fairness import namespace_of

INTERVAL = 10.0  # seconds until one step comes back
BURST = 60  # steps that may follow each other at once
NAMESPACE_BURST = 600  # likewise, of all Services of a namespace together
ASSUMED_STEPS = 5  # charged for a failure or a removal, whose number of steps is unknown
# Steps that count of one look. Many are no repetition: they move fifty nodes to private addresses, or adopt
# what is there. It is half of the burst, so after a pause a change can be reverted at once.
MAX_STEPS = 30
FIRST_DELAY = 5.0  # seconds that the second repair waits, then doubled: the delays of failures
MAX_DELAY = 300.0
RESET_AFTER = 2 * MAX_DELAY  # seconds without a loss after which the next one is the first again


class ChangeRateLimiter:
    """A token bucket for each Service name and each namespace, stored as the time when the bucket is full."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._reported_until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def delay(self, key: str, now: float) -> float:
        """Seconds until the Service's owner may cause the next change; 0 = at once."""
        buckets = (key, BURST), (namespace_of(key), NAMESPACE_BURST)
        return max(
            0.0, *(self._full_at.get(bucket, now) - now - (size - 1) * INTERVAL for bucket, size in buckets)
        )

    def should_report(self, key: str, now: float) -> bool:
        """Whether the last delay wasn't reported yet; the caller reports it now."""
        news = self._reported_until.get(key, now) <= now
        if news:
            self._reported_until[key] = now + self.delay(key, now)
        return news

    def charge(self, key: str, steps: int, now: float) -> None:
        """Count the steps of one look, at most :data:`MAX_STEPS`, on credit if need be."""
        self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        self._reported_until = {one: until for one, until in self._reported_until.items() if until > now}
        for one in (key, namespace_of(key)):
            self._full_at[one] = self._full_at.get(one, now) + min(steps, MAX_STEPS) * INTERVAL


class DriftBackoff:
    """One Service's losses of late; ``contested`` if it happened again, so it isn't a single overwrite."""

    __slots__ = ("_delay", "_due", "contested")

    def __init__(self) -> None:
        self.contested = False
        self._delay: float | None = None
        self._due = 0.0

    def next_delay(self, now: float) -> float:
        """Record an overwrite; returns the seconds until its repair, which also repairs later overwrites."""
        if now < self._due:
            return self._due - now
        self.contested = self._delay is not None and now <= self._due + RESET_AFTER
        self._delay = next_retry(self._delay or 0.0, FIRST_DELAY, MAX_DELAY) if self.contested else 0.0
        self._due = now + self._delay
        return self._delay
