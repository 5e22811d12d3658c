"""The API token as it changes while we run, and work that must see one project from beginning to end.

A new token may be of another project, which has none of our resources. If the token changes during a piece of
work, one project says that a resource is missing and the other that it is the right project. So work that
concludes anything from absence holds the token that it began with, and ends when the token changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ccm.hetzner.api.api_errors import TokenChanged

_held: ContextVar[tuple[ProjectToken, int] | None] = ContextVar("held_token", default=None)


class ProjectToken:
    """The token; ``read`` returns the current one."""

    def __init__(self, read: Callable[[], str]) -> None:
        self.read = read
        self.number = 0  # how many tokens there were before the current one
        self._last: str | None = None

    def look(self) -> str:
        """The current token; raises TokenChanged if the work of the caller holds another one."""
        token = self.read()
        self.number += self._last not in {None, token}
        self._last = token
        self.check()
        return token

    def check(self) -> None:
        """Raise TokenChanged if the work of the caller holds another token than the one seen last."""
        if not self.is_held:
            raise TokenChanged(
                "the token changed during the request, and results of two tokens can't be combined"
            )

    @property
    def is_held(self) -> bool:
        """Whether the token seen last is the one that the work of the caller holds on to, if any."""
        held = _held.get()
        return held is None or held[0] is not self or held[1] == self.number

    @contextmanager
    def hold(self) -> Generator[None]:
        """Make a block one piece of work; nested, a part of the outer one. Raises TokenChanged at its end."""
        self.look()
        before = _held.set((self, self.number))
        try:
            yield
            self.check()
        finally:
            _held.reset(before)
