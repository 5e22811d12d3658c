"""The rate limit of a project: a token bucket."""

from collections.abc import Mapping
from dataclasses import dataclass

HOUR = 3600.0
DEFAULT = 3600


@dataclass
class Bucket:
    """Remaining requests of a project at a Unix time."""

    tokens: float
    at: float


class RateLimiter:
    """One bucket per project. 0 requests an hour disable the limit; headers then show the default."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buckets: dict[str, Bucket] = {}

    @property
    def shown_limit(self) -> int:
        """The limit in the headers."""
        return self.limit or DEFAULT

    def take(self, project: str, now: float) -> bool:
        """Count a request; False if none remains."""
        if not self.limit:
            return True
        bucket = self._refilled(project, now)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _refilled(self, project: str, now: float) -> Bucket:
        bucket = self._buckets.get(project)
        if bucket is None:
            bucket = self._buckets[project] = Bucket(self.limit, now)
        gained = max(0.0, now - bucket.at) * self.limit / HOUR
        bucket.tokens, bucket.at = min(float(self.limit), bucket.tokens + gained), now
        return bucket

    def remaining(self, project: str, now: float) -> int:
        """Remaining requests."""
        return int(self._refilled(project, now).tokens) if self.limit else DEFAULT

    def headers(self, project: str, now: float) -> Mapping[str, str]:
        """The three ``RateLimit`` headers; the reset is the Unix time when the bucket is full."""
        remaining = self.remaining(project, now)
        missing = self.shown_limit - remaining
        return {
            "RateLimit-Limit": str(self.shown_limit),
            "RateLimit-Remaining": str(remaining),
            "RateLimit-Reset": str(int(now + missing * HOUR / self.shown_limit)),
        }

    def set_limit(self, limit: int) -> None:
        """Change the limit, and fill all buckets."""
        self.limit = limit
        self._buckets.clear()

    def set_remaining(self, project: str, remaining: int, now: float) -> None:
        """Set the remaining requests of a project."""
        self._buckets[project] = Bucket(float(remaining), now)
