"""The sandbox process: one application on several sockets.

The API, the metadata service, the k3s installer and the admin calls are one aiohttp application. The host
reaches it on 127.0.0.1; machines reach it at 169.254.169.254, on sockets that live inside the namespaces of
their router and their networks, so that these addresses are the same in every clone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from hetzner_emulator.app import create_app
from hetzner_emulator.backend import Backend, RecordsBackend
from hetzner_emulator.config import ActionMode, CloudConfig
from hetzner_emulator.http.serving import serve_until
from hetzner_machines import ipv6, processes
from hetzner_machines.backend import MachinesBackend
from hetzner_machines.link_local import Listen
from hetzner_machines.names import Names
from sandbox import daemon
from sandbox.backend_choice import Choice, decide, look, refuse_internet
from sandbox.built_kubernetes import built_toolchain
from sandbox.environment import MACHINES, control_plane_directory
from sandbox.errors import SandboxError
from sandbox.hollow import version as hollow_version
from sandbox.hollow.backend import HollowBackend
from sandbox.images.registry import FOLDER, Registry
from sandbox.kubernetes import installer, machine_image, toolchain
from sandbox.kubernetes.components import REGISTRY
from sandbox.site import Clone, Site

PROJECT = "ccm-from-scratch"
NOT_HERE = (
    "the sandbox does not have this image, and no Internet to fetch it from: ./dev load it, "
    "push it to the sandbox's registry, or ./dev up --internet"
)
"""The response to a machine that asks for a missing image; Kubernetes shows it in the Pod's Event."""


@dataclass(frozen=True)
class ServeOptions:
    """What can be chosen when the process starts."""

    port: int  # TCP port on 127.0.0.1
    # ``machines``; ``hollow``: records and hollow nodes of a cluster on loopback; ``records``: only the API;
    # ``auto``: machines where they can run, else hollow.
    backend: str
    actions: ActionMode  # how long actions take
    rate_limit: int  # requests an hour; 0 switches the limit off
    k3s: Path | None  # A real k3s binary to serve instead of the stand-in
    tokens: frozenset[str]  # of the default project; each of them makes admin calls, too
    welcome: str  # said once the API answers, after its address
    internet: bool = False  # whether machines get out through the host


def choose_kind(clone: Clone, wanted: str, *, internet: bool = False) -> Choice | None:
    """The backend of servers; None: records."""
    if wanted == "records":
        refuse_internet(wanted, internet)
        return None
    choice = decide(wanted, look(clone))
    refuse_internet(choice.kind, internet)
    if choice.packages:
        names = ", ".join(package.name for package in choice.packages)
        raise SandboxError(f"packages are missing: {names}; './dev setup' installs them")
    if choice.kind == MACHINES and machine_image.find(clone.cache) is None:
        raise SandboxError("the machine image has not been built yet; './dev setup' builds it")
    return choice


def choose_backend(site: Site, wanted: str, say: Callable[[str], None], *, internet: bool = False) -> Backend:
    """The world below the API."""
    choice = choose_kind(site, wanted, internet=internet)
    if choice is None:
        return RecordsBackend()
    if choice.kind == MACHINES and (built := machine_image.find(site.cache)):
        return MachinesBackend(site.id, site.state, site.public_range, built, internet=internet)
    say(f"servers are records with hollow nodes, not machines{choice.reason and ': ' + choice.reason}")
    return HollowBackend(built_toolchain(site, hollow_version.begin(site)), control_plane_directory(site))


async def serve(site: Site, options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    backend = choose_backend(site, options.backend, say, internet=options.internet)
    app = create_app(_config(site, options), backend)
    app.add_routes(installer.routes(site.cache, options.k3s))
    if isinstance(backend, MachinesBackend):
        _registry(site, "" if options.internet else NOT_HERE).add_to(app)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def answering(runner: web.AppRunner) -> None:
        if isinstance(backend, MachinesBackend):
            await backend.serve_http(listening(runner))
        daemon.note(site, _running(backend, options))
        say(f"Hetzner Cloud API  http://127.0.0.1:{options.port}/v1 ({backend.name} backend)")
        if options.welcome:
            say(options.welcome)

    try:
        await serve_until(stopped, app, options.port, answering)
    finally:
        daemon.forget(site)


def listening(runner: web.AppRunner) -> Listen:
    """Begins to serve a running application on one more socket."""

    async def listen(bound: socket.socket) -> Callable[[], Awaitable[None]]:
        place = web.SockSite(runner, bound)
        await place.start()

        async def end() -> None:
            if place in runner.sites:  # else the application has ended, and all its sockets with it
                await place.stop()

        return end

    return listen


def _registry(site: Site, elsewhere: str) -> Registry:
    """The registry for root and the clone's owner."""
    built = toolchain.find(site.cache, [REGISTRY])
    users = {0, os.geteuid(), site.root.stat().st_uid}
    address = Names(site.id).sockets / "registry"
    return Registry(built and built.bin / "registry", site.state / FOLDER, address, users, elsewhere)


def _running(backend: Backend, options: ServeOptions) -> daemon.Running:
    k3s = str(options.k3s.resolve()) if options.k3s else ""
    own = processes.identify(os.getpid())
    start_time, boot_id = (own.start_time, own.boot_id) if own else (0, "")
    return daemon.Running(
        os.getpid(), backend.name, options.actions, k3s, options.port, start_time, boot_id, options.internet
    )


def _config(site: Site, options: ServeOptions) -> CloudConfig:
    return CloudConfig(
        tokens=dict.fromkeys(options.tokens, PROJECT),
        state_file=site.state / "cloud.sqlite",
        public_ipv4=site.public_range,
        public_ipv6=ipv6.of_site(site.id),
        actions=options.actions,
        rate_limit=options.rate_limit,
    )
