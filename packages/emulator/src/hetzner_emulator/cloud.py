"""The whole cloud: state, actions, addresses and the world below."""

from __future__ import annotations

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
    """Everything that the handlers and effects work with.

    Attributes:
        config: As given at the start.
        store: The state.
        backend: The world below.
        actions: Running changes.
        addresses: Public addresses.
        limiter: Of requests.
        faults: Injected ones.
        requests: The log.
        limits: Quotas by name; can be changed at run time.
        action_mode: A mode, or the seconds that every action takes. Can be changed at run time.
        sold_out: Pairs of server type and location without capacity; can be changed at run time.
        vswitches: Ids of Robot's vSwitches that there are; can be changed at run time.
        tokens: Project by token; can be changed at run time.
        read_only_tokens: Those that may only read.
        measurements: Of what runs, taken when somebody asks.
        encoded: How objects are shown, as JSON, as long as nothing changes.
        applied: What the backend was last told, by kind and id.
        guest_event: Tells that a guest changed its power by itself; set by the servers' module.
    """

    def __init__(
        self, config: CloudConfig, backend: Backend, clock: Callable[[], float], randomness: Random
    ) -> None:
        self.config = config
        self.backend = backend
        self.now = clock
        self.randomness = randomness
        self.store = Store(config.state_file)
        self.actions = Actions(self)
        self.addresses = AddressPool(config, self.store)
        self.limiter = RateLimiter(config.rate_limit)
        self.faults = Faults()
        self.requests = RequestLog(config.request_log)
        self.limits: dict[str, int] = {**LIMITS, **config.limits}
        self.action_mode: ActionMode | float = config.actions
        self.sold_out = config.sold_out
        self.vswitches: frozenset[int] = frozenset()
        self.guest_event: Callable[[int, str], None] = lambda _server, _state: None
        self.measurements = Measurements()
        self.encoded = Encoded(self.store)
        self.applied: dict[tuple[str, int], object] = {}
        self.tokens: dict[str, str] = dict(config.tokens)
        self.read_only_tokens: set[str] = set(config.read_only_tokens)
        self._exclusive: dict[tuple[str, int], asyncio.Lock] = {}

    async def start(self) -> None:
        """Make the world below equal the state, then go on with running actions."""
        await announce("start", self, None)
        await announce("started", self, None)
        self.actions.resume()

    async def reset(self) -> None:
        """Remove every object, in all projects and in the world below; numbers are not used again."""
        await self.actions.stop()
        self.actions.forget()
        self.store.clear()
        self.applied.clear()
        await announce("stop", self, None)
        await self.backend.remove_all()
        self.store.commit()
        await announce("start", self, None)

    async def stop(self) -> None:
        """Stop all work; running actions are resumed by the next start."""
        await self.actions.stop()
        await announce("stop", self, None)
        await self.backend.stop()
        self.store.close()

    def action_seconds(self, command: str) -> float:
        """Seconds that an action takes at least in the present mode."""
        return duration(command, self.action_mode, self.randomness)

    @property
    def projects(self) -> list[str]:
        """All projects that a token was ever given for."""
        return sorted({*self.config.tokens.values(), *self.tokens.values()})

    def exclusive(self, kind: str, identity: int) -> asyncio.Lock:
        """The lock under which the world below is asked about one object."""
        return self._exclusive.setdefault((kind, identity), asyncio.Lock())

    def check_limit(self, name: str, present: int, adding: int = 1) -> None:
        """Refuse to go beyond a quota.

        Args:
            name: Of the quota.
            present: How many there are.
            adding: How many would be added.

        Raises:
            LimitExceeded: That is too many.
        """
        if present + adding > self.limits[name]:
            one = name.removesuffix("s")
            words = "Primary IP" if one == "primary_ip" else one.replace("_", " ")
            raise LimitExceeded(f"{words} limit exceeded", f"{one}_limit")
