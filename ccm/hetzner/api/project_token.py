"""The API token, which may change, and a guard for work that must use one project.

A new token may belong to another project without our resources. If the token changes during some work, a
resource may be missing in one project, while a check of the project succeeds in the other project. So work
that depends on missing resources holds its first token, and fails if the token changes.
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
        self.number = 0  # number of changes of the token
        self._last: str | None = None

    def look(self) -> str:
        """Read the current token. Raises TokenChanged if the caller holds another token."""
        token = self.read()
        self.number += self._last not in {None, token}
        self._last = token
        self.check()
        return token

    def check(self) -> None:
        """Raise TokenChanged if the caller holds another token than the last one."""
        if not self.is_held:
            raise TokenChanged(
                "the token changed during the request. The CCM can't combine results from different tokens"
            )

    @property
    def is_held(self) -> bool:
        """Whether the caller holds the last token, or no token."""
        held = _held.get()
        return held is None or held[0] is not self or held[1] == self.number

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold the token during a block, or keep an already held token. Raises TokenChanged at the end."""
        self.look()
        before = _held.set((self, self.number))
        try:
            yield
            self.check()
        finally:
            _held.reset(before)
