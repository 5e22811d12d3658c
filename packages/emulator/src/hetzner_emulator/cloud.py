"""The cloud: state, actions, addresses, and the backend."""

import asyncio
from collections.abc import Callable
from random import Random

from hetzner_emulator.actions.actions import Actions
from hetzner_emulator.actions.durations import duration
from hetzner_emulator.actions.events import announce
from hetzner_emulator.backend import Backend
from hetzner_emulator.config import LIMITS, ActionMode, CloudConfig
from hetzner_emulator.errors import LimitExceeded
from hetzner_emulator.state.addresses import AddressPool
from hetzner_emulator.state.encoded import Encoded
from hetzner_emulator.state.measurements import Measurements
from hetzner_emulator.state.store import Store
from hetzner_emulator.traffic.faults import Faults
from hetzner_emulator.traffic.limiter import RateLimiter
from hetzner_emulator.traffic.requests import RequestLog


class Cloud:
    """The context of handlers and effects. Admin calls can change the settings."""

    def __init__(
        self, config: CloudConfig, backend: Backend, clock: Callable[[], float], randomness: Random
    ) -> None:
        self.config = config  # settings at the start
        self.backend = backend  # creates what the API shows
        self.now = clock
        self.randomness = randomness
        self.store = Store(config.state_file)
        self.actions = Actions(self)
        self.addresses = AddressPool(config, self.store)
        self.limiter = RateLimiter(config.rate_limit)  # of requests
        self.faults = Faults()
        self.requests = RequestLog(config.request_log)
        self.limits: dict[str, int] = {**LIMITS, **config.limits}  # setting: quotas by name
        # setting: a mode, or the seconds of every action
        self.action_mode: ActionMode | float = config.actions
        self.sold_out = config.sold_out  # setting: pairs of server type and location without capacity
        self.vswitches: frozenset[int] = frozenset()  # setting: IDs of Robot's vSwitches
        # reports that a guest changed its power; the servers' module sets it
        self.guest_event: Callable[[int, str], None] = lambda _server, _state: None
        self.measurements = Measurements()  # for metrics
        self.encoded = Encoded(self.store)  # cached JSON of objects
        # the last value that the backend applied, by kind and ID
        self.applied: dict[tuple[str, int], object] = {}
        self.tokens: dict[str, str] = dict(config.tokens)  # setting: project by token
        # setting: tokens for GET requests only
        self.read_only_tokens: set[str] = set(config.read_only_tokens)
        self._exclusive: dict[tuple[str, int], asyncio.Lock] = {}

    async def start(self) -> None:
        """Make the backend equal the state, then resume running actions."""
        await announce("start", self, None)
        await announce("started", self, None)
        self.actions.resume()

    async def reset(self) -> None:
        """Delete every object of all projects, and all of the backend; IDs are not reused."""
        await self.actions.stop()
        self.actions.forget()
        self.store.clear()
        self.applied.clear()
        await announce("stop", self, None)
        await self.backend.remove_all()
        self.store.commit()
        await announce("start", self, None)

    async def stop(self) -> None:
        """Stop; the next start resumes running actions."""
        await self.actions.stop()
        await announce("stop", self, None)
        await self.backend.stop()
        self.store.close()

    def action_seconds(self, command: str) -> float:
        """Minimum duration of an action in seconds."""
        return duration(command, self.action_mode, self.randomness)

    @property
    def projects(self) -> list[str]:
        """All projects with a token, now or at the start."""
        return sorted({*self.config.tokens.values(), *self.tokens.values()})

    def exclusive(self, kind: str, identity: int) -> asyncio.Lock:
        """The lock for backend calls about one object."""
        return self._exclusive.setdefault((kind, identity), asyncio.Lock())

    def check_limit(self, name: str, present: int, adding: int = 1) -> None:
        """Raise LimitExceeded if more objects would exceed a quota."""
        if present + adding > self.limits[name]:
            one = name.removesuffix("s")
            words = "Primary IP" if one == "primary_ip" else one.replace("_", " ")
            raise LimitExceeded(f"{words} limit exceeded", f"{one}_limit")
