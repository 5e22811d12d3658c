"""The emulated API in a process without machines: servers are records."""

import argparse
import asyncio
import fcntl
import logging
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from ipaddress import IPv4Network
from pathlib import Path

from aiohttp import web

from hetzner_emulator import tokens
from hetzner_emulator.address import Address, past_proxies
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import ACTION_MODES, CloudConfig
from hetzner_emulator.errors import EmulatorError
from hetzner_emulator.http.serving import port_of, serve_until

TOKEN = re.compile(r"[!-~]{1,255}")
PROJECT = "default"
PUBLIC_IPV4 = IPv4Network("198.18.0.0/15")
"""The range of the servers' public addresses. No traffic uses these addresses. The range contains more
addresses than any quota allows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that serve the API."""
    parser.add_argument(
        "--port",
        type=int,
        help="the port on 127.0.0.1 (default: the fixed port of the clone; without a clone, a free port)",
    )
    parser.add_argument(
        "--token",
        help="an API token that is valid in addition to the generated token. Terraform and Pulumi require "
        "a token of 64 characters. Other users of this host can see the token in the list of processes",
    )
    parser.add_argument(
        "--no-exports",
        action="store_true",
        help="don't print the console address and the environment variables, because both contain the token",
    )
    parser.add_argument("--actions", choices=ACTION_MODES, default="instant", help="the duration of actions")
    parser.add_argument(
        "--rate-limit",
        type=int,
        default=3600,
        metavar="N",
        help="the maximum number of requests per hour; 0 disables the limit",
    )


def check(arguments: argparse.Namespace) -> None:
    """Check the options; the error names the option and the allowed values."""
    if arguments.port is not None and not 0 < arguments.port < 1 << 16:
        raise EmulatorError(f"--port {arguments.port}: give a TCP port between 1 and 65535")
    if arguments.token is not None and not TOKEN.fullmatch(arguments.token):
        raise EmulatorError("--token: give 1 to 255 printable ASCII characters without spaces")
    if arguments.rate_limit < 0:
        raise EmulatorError(
            f"--rate-limit {arguments.rate_limit}: give a number of requests per hour, or 0 for no limit"
        )


def log_to_stderr() -> None:
    """Write log records to standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def welcome(address: Address) -> str:
    """The address of the console, and environment variables for clients."""
    needed = address.variables | past_proxies(os.environ)
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in needed.items()]
    lines = [f"Console            {address.console}", "For clients, in another shell:", *exports]
    return "\n".join(lines)


def run(arguments: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Serve until interrupted; ``state_dir`` is the folder of objects and token, None for memory.

    Raises EmulatorError: an option is invalid, or the port or folder is in use.
    """
    check(arguments)
    log_to_stderr()
    folder: Path | None = arguments.state_dir
    with _alone_in(folder) if folder else nullcontext():
        own = tokens.kept(folder / "token") if folder else tokens.new()
        shown = arguments.token or own
        config = CloudConfig(
            tokens=dict.fromkeys((own, shown), PROJECT),
            state_file=folder / "cloud.sqlite" if folder else None,
            public_ipv4=PUBLIC_IPV4,
            actions=arguments.actions,
            rate_limit=arguments.rate_limit,
        )

        def serving(port: int) -> None:
            address = Address(port, shown)
            say(f"Hetzner Cloud API  {address.endpoint} (backend: records)")
            if not arguments.no_exports:
                say(welcome(address))

        asyncio.run(_until_interrupted(config, arguments.port or 0, serving))
    return 0


async def _until_interrupted(config: CloudConfig, port: int, serving: Callable[[int], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await serve(config, port, stopped, serving)


async def serve(
    config: CloudConfig, port: int, stopped: asyncio.Event, serving: Callable[[int], None]
) -> None:
    """Serve a cloud of records on a port of 127.0.0.1 (0 for a free one) until ``stopped``.

    Calls ``serving`` with the port once the API accepts requests. Raises EmulatorError: the port is in use,
    or the state file is invalid.
    """

    async def answering(runner: web.AppRunner) -> None:
        serving(port_of(runner))

    await serve_until(stopped, create_app(config, RecordsBackend()), port, answering)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Create a private folder and hold its lock, so that one process writes the state."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "serve.lock").open("w") as lock:  # the kernel releases it when the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"--state-dir {folder}: another emulator already uses this folder"
            raise EmulatorError(text) from None
        yield
