"""Commands on servers over SSH, with bounded retries, timeouts, and the last output in errors."""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import HostKeyError, InfraError, RemoteCommandError, UnreachableError

if TYPE_CHECKING:
    import asyncssh

TAIL_LINES = 15
CONNECT_SECONDS = 180.0
_ATTEMPT_SECONDS = 10.0
_EACH_SECONDS = 6.0
_READY = "k3s kubectl get --raw /readyz --request-timeout=10s"
_READY_SECONDS = 15.0
_FIRST_PAUSE = 0.15
_MAX_PAUSE = 3.0


@dataclass(frozen=True)
class Host:
    """How to reach a server. Without ``host_key`` any host key is accepted, with it only this one.

    So the first connection to a new server trusts the network. A host key in the server's user data would be
    no secret: every Pod could read it from the metadata service.

    A server without a public address is reached through another one, ``jump``. ``key_file`` is the path of
    the private key, for messages; empty: the stack's.
    """

    address: str
    private_key: str = field(repr=False)
    host_key: str | None = None
    user: str = "root"
    jump: Host | None = None
    key_file: str = ""

    @property
    def way(self) -> list[Host]:
        """All hosts on the way to it, itself last."""
        return [*(self.jump.way if self.jump else []), self]


@asynccontextmanager
async def connect(
    host: Host, *, timeout: float = CONNECT_SECONDS, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Shell]:
    """Connects, trying again until ``timeout`` seconds are over: a server that boots refuses at first. An
    UnreachableError: no answer, or no login, in time; a HostKeyError: the server has another host key.
    """
    connections = await _connect(host, timeout, clock)
    try:
        yield Shell(host.address, connections[-1])
    finally:
        await _close(connections)


@asynccontextmanager
async def connect_first(
    hosts: Sequence[Host], *, timeout: float = CONNECT_SECONDS, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Shell]:
    """Connects to the first of several control servers on which the Kubernetes API is ready. With one host
    this is ``connect``, without a check of the API. One host gets a few seconds at a time. If none is ready
    in time, raises the error of the last one.
    """
    async with AsyncExitStack() as stack:
        if len(hosts) == 1:
            yield await stack.enter_async_context(connect(hosts[0], timeout=timeout, clock=clock))
        else:
            yield await _first_ready(hosts, stack, clock() + timeout, clock)


async def run_once(
    hosts: Sequence[Host], script: str, *, what: str, timeout: float, within: float = CONNECT_SECONDS
) -> str:
    """Runs one script on a server, or on the first of several control servers that is ready. ``within`` is
    the timeout of the connection.
    """
    async with connect_first(hosts, timeout=within) as shell:
        return await shell.run(script, what=what, timeout=timeout)


def pauses(jitter: Callable[[], float] = random.random) -> Callable[[], float]:
    """Growing pauses between attempts, in seconds; up to a fifth of each is random."""
    pause = _FIRST_PAUSE

    def following() -> float:
        nonlocal pause
        now, pause = pause, min(pause * 1.4, _MAX_PAUSE)
        return now * (0.8 + 0.2 * jitter())

    return following


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of an output, without blank ones and tabs."""
    return "\n".join([line for line in text.expandtabs().splitlines() if line.strip()][-lines:])


async def _first_ready(
    hosts: Sequence[Host], stack: AsyncExitStack, deadline: float, clock: Callable[[], float]
) -> Shell:
    pause = pauses()
    reason: InfraError | None = None
    while True:
        for host in hosts:
            seconds = max(0.1, min(_EACH_SECONDS, deadline - clock()))
            try:
                async with AsyncExitStack() as attempt:
                    shell = await attempt.enter_async_context(connect(host, timeout=seconds, clock=clock))
                    await shell.run(_READY, what="asking for the Kubernetes API", timeout=_READY_SECONDS)
                    await stack.enter_async_context(attempt.pop_all())
                    return shell
            except InfraError as error:
                if reason is None or seconds >= 1:  # a shorter attempt says nothing of the server
                    reason = error
        if reason and clock() >= deadline:
            raise reason
        await asyncio.sleep(pause())


async def read_object(
    shell: Shell, kind: str, name: str, *, what: str, namespace: str = "", timeout: float = 30.0
) -> Mapping[str, Any] | None:
    """An object as the API returns it; None where there is none."""
    where = f"--namespace={namespace} " if namespace else ""
    command = f"k3s kubectl {where}get {kind} {shlex.quote(name)} --ignore-not-found -o json"
    found = await shell.run(command, what=what, timeout=timeout)
    return json.loads(found) if found.strip() else None


async def _connect(
    host: Host, timeout: float, clock: Callable[[], float]
) -> list[asyncssh.SSHClientConnection]:
    """Connections to all hosts on the way, in its order."""
    import asyncssh  # noqa: PLC0415 (half a second that the program itself need not spend)

    deadline = clock() + timeout
    pause = pauses()
    reason = ""
    while True:
        try:
            return await _attempt(host, min(_ATTEMPT_SECONDS, max(0.1, deadline - clock())))
        except _NoJump as error:
            reason = str(error)
        except (OSError, asyncssh.Error) as error:
            reason = str(error) or reason  # a refusal says more than the last attempt's lack of time
        if clock() >= deadline:
            raise UnreachableError(host.address, timeout, reason or "no answer")
        await asyncio.sleep(pause())


class _NoJump(Exception):
    """A host on the way to another one can't be reached."""


async def _attempt(host: Host, seconds: float) -> list[asyncssh.SSHClientConnection]:
    import asyncssh  # noqa: PLC0415

    connections: list[asyncssh.SSHClientConnection] = []
    hop = host
    try:
        async with asyncio.timeout(seconds):
            for hop in host.way:
                connections.append(await _open(hop, connections[-1] if connections else None))
    except BaseException as error:
        await _close(connections)
        if hop is not host and isinstance(error, OSError | asyncssh.Error):
            why = str(error) or "no answer"
            raise _NoJump(f"the gateway {hop.address} does not answer: {why}") from error
        raise
    return connections


async def _open(host: Host, tunnel: asyncssh.SSHClientConnection | None) -> asyncssh.SSHClientConnection:
    import asyncssh  # noqa: PLC0415

    known = asyncssh.import_known_hosts(f"{host.address} {host.host_key}\n") if host.host_key else None
    try:
        return await asyncssh.connect(
            host.address,
            username=host.user,
            client_keys=[asyncssh.import_private_key(host.private_key)],
            known_hosts=known,
            # nothing of the person's own set-up may matter
            config=None,
            agent_path=None,
            preferred_auth="publickey",
            server_host_key_algs=["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"] if not known else (),
            keepalive_interval=10,
            keepalive_count_max=3,
            **({"tunnel": tunnel} if tunnel else {}),
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostKeyError(host.address, is_own_gateway=bool(host.key_file)) from error


async def _close(connections: Sequence[asyncssh.SSHClientConnection]) -> None:
    """Closes them, the last one first, because it goes through the others."""
    for connection in reversed(connections):
        connection.close()
        await connection.wait_closed()


class Shell:
    """A connection to a server."""

    def __init__(self, address: str, connection: asyncssh.SSHClientConnection) -> None:
        self._address = address
        self._connection = connection

    @property
    def host_key(self) -> str:
        """The server's public host key in OpenSSH's format."""
        key = self._connection.get_server_host_key()
        assert key is not None
        return key.export_public_key().decode().strip()

    async def run(self, script: str, *, what: str, timeout: float) -> str:
        """Runs a shell script and returns what it wrote to standard output. The script is sent to standard
        input, so that secrets in it never appear in a process list. ``what`` names it in errors, as in
        "installing k3s". A RemoteCommandError: it ended with another code than 0, or not in time.
        """
        return await self.feed("sh -s", script.encode(), what=what, timeout=timeout)

    async def feed(self, command: str, content: bytes, *, what: str, timeout: float) -> str:
        """Runs a command, without secrets in it, with ``content`` as its standard input; else as ``run``."""
        import asyncssh  # noqa: PLC0415

        try:
            result = await self._connection.run(command, input=content, encoding=None, timeout=timeout)
        except asyncssh.TimeoutError as error:
            said = _text(error.stdout) + _text(error.stderr)
            raise RemoteCommandError(
                self._address, what, f"took more than {timeout:.0f} s", tail(said)
            ) from error
        except (OSError, asyncssh.Error) as error:
            raise RemoteCommandError(self._address, what, f"lost its connection: {error}", "") from error
        if result.exit_status != 0:
            said = _text(result.stdout) + _text(result.stderr)
            raise RemoteCommandError(self._address, what, _ending(result), tail(said))
        return _text(result.stdout)


def _ending(result: asyncssh.SSHCompletedProcess) -> str:
    if result.exit_signal:
        return f"was ended by signal {result.exit_signal[0]}"
    return f"failed with code {result.exit_status}"


def _text(output: object) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else str(output or "")
