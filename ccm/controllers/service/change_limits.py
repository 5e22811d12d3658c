"""Limits how often load balancers change because of changed Services or overwritten fields.

All Services share the quota of the cloud's API, and a tenant can change its Service every second, or create
and delete Services all day. So each Service has a token bucket that refills slowly: enough for manual
changes, too little to delay other Services. Each namespace also has a bucket of ten times the size, with the
same refill rate.

If another client overwrites a field that we wrote, the first overwrite is repaired immediately. Another
controller might overwrite each repair, so the delay before each further repair increases. Times are
arguments, in seconds of any monotonic clock.
"""

from ccm.kube.backoff import next_retry
from ccm.kube.fairness import namespace_of

INTERVAL = 10.0  # seconds until the bucket gets one step back
BURST = 60  # maximum steps without a delay
NAMESPACE_BURST = 600  # the same for all Services of a namespace together
ASSUMED_STEPS = 5  # charged for a failure or a removal, whose number of steps is unknown
# Maximum steps that one sync charges. A sync with many steps is rarely a repetition: it moves fifty nodes to
# private addresses, or adopts a load balancer. Half of the burst, so a change can be reverted immediately.
MAX_STEPS = 30
FIRST_DELAY = 5.0  # seconds before the second repair, doubled for each further repair, as after failures
MAX_DELAY = 300.0
RESET_AFTER = 2 * MAX_DELAY  # seconds without an overwrite until the delays start again


class ChangeRateLimiter:
    """Token buckets for each Service name and each namespace, each stored as the time when it is full."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._reported_until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def delay(self, key: str, now: float) -> float:
        """Seconds until the next change of the Service by its owner may run; 0 = now."""
        buckets = (key, BURST), (namespace_of(key), NAMESPACE_BURST)
        return max(
            0.0, *(self._full_at.get(bucket, now) - now - (size - 1) * INTERVAL for bucket, size in buckets)
        )

    def should_report(self, key: str, now: float) -> bool:
        """Whether the caller must report the current delay, because it hasn't been reported."""
        news = self._reported_until.get(key, now) <= now
        if news:
            self._reported_until[key] = now + self.delay(key, now)
        return news

    def charge(self, key: str, steps: int, now: float) -> None:
        """Charge the steps of one sync, at most :data:`MAX_STEPS`, even if the bucket is empty."""
        self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        self._reported_until = {one: until for one, until in self._reported_until.items() if until > now}
        for one in (key, namespace_of(key)):
            self._full_at[one] = self._full_at.get(one, now) + min(steps, MAX_STEPS) * INTERVAL


class DriftBackoff:
    """The delays after overwrites of one Service's fields; ``contested`` after a repeated overwrite."""

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
