"""``./dev serve``: the sandbox process in the foreground; ``./dev up`` starts it in the background.

The API, the metadata service, the k3s installer and the admin calls are one aiohttp application. The host
reaches it on 127.0.0.1; machines reach it at 169.254.169.254, on sockets that live inside the namespaces of
their router and their networks, so that these addresses are the same in every clone.
"""

import argparse
import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from ccmfs_common import host
from hetzner_emulator import standalone
from hetzner_emulator.address import Address
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import Backend, RecordsBackend
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.http.serving import serve_until
from hetzner_machines import ipv6, processes
from hetzner_machines.backend import MachinesBackend
from hetzner_machines.link_local import Listen
from hetzner_machines.names import Names
from sandbox import daemon
from sandbox.backend_choice import Choice, decide, look, refuse_internet
from sandbox.built_kubernetes import begin_hollow, built_toolchain
from sandbox.environment import MACHINES
from sandbox.errors import SandboxError
from sandbox.hollow.backend import HollowBackend
from sandbox.images.registry import FOLDER, Registry
from sandbox.kubernetes import installer, machine_image, toolchain
from sandbox.kubernetes.components import REGISTRY
from sandbox.site import Clone, Site

HELP = "run the emulated Hetzner Cloud API in the foreground"
STARTS = CLAIMS = True
PROJECT = "ccm-from-scratch"
NOT_HERE = (
    "the sandbox does not have this image, and machines can't reach the Internet. Run './dev load IMAGE', "
    "push the image to the sandbox's registry, or run './dev up --internet'"
)
"""The error for a machine that pulls a missing image. Kubernetes shows the error in an Event of the Pod."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen and how the cloud behaves."""
    standalone.add_arguments(parser)
    parser.add_argument("--backend", choices=["auto", "machines", "hollow", "records"], default="auto")
    parser.add_argument(
        "--k3s",
        type=Path,
        metavar="FILE",
        help="run the k3s binary FILE on the machines, instead of the stand-in for k3s",
    )
    parser.add_argument(
        "--internet", action="store_true", help="let machines and Pods reach the Internet through this host"
    )


def check(clone: Clone, arguments: argparse.Namespace) -> None:
    """Refuse what can't be served."""
    standalone.check(arguments)
    daemon.check_k3s(arguments.k3s)
    choose_kind(clone, arguments.backend, internet=arguments.internet)


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    running = daemon.find(site)
    if running:
        raise SandboxError(f"the sandbox of this clone is already running (process {running.pid})")
    port = arguments.port or site.port
    if not host.port_is_free(port):
        raise SandboxError(f"port {port} on 127.0.0.1 is in use; choose another port with --port")
    standalone.log_to_stderr()
    own = replace(site, port=port)
    shown = Address(port, arguments.token or site.token)
    tokens = frozenset({own.token, shown.token})
    welcome = "" if arguments.no_exports else standalone.welcome(shown)
    with daemon.only_one(site):
        asyncio.run(_serve(own, arguments, tokens, welcome))
    return 0


def choose_kind(clone: Clone, wanted: str, *, internet: bool) -> Choice | None:
    """What servers are; None: records."""
    if wanted == "records":
        refuse_internet(wanted, internet)
        return None
    choice = decide(wanted, look(clone))
    refuse_internet(choice.kind, internet)
    if choice.packages:
        names = ", ".join(package.name for package in choice.packages)
        raise SandboxError(f"packages are missing: {names}; './dev setup' installs them")
    if choice.kind == MACHINES and machine_image.find(clone.cache) is None:
        raise SandboxError("the machine image has not been built yet; './dev setup' builds the image")
    return choice


def _backend(site: Site, wanted: str, *, internet: bool) -> Backend:
    choice = choose_kind(site, wanted, internet=internet)
    if choice is None:
        return RecordsBackend()
    if choice.kind == MACHINES and (built := machine_image.find(site.cache)):
        return MachinesBackend(site.id, site.state, site.public_range, built, internet=internet)
    _say(f"servers are only API records with simulated Nodes{choice.reason and '. Reason: ' + choice.reason}")
    return HollowBackend(built_toolchain(site, begin_hollow(site)), site.control_plane)


async def _serve(site: Site, options: argparse.Namespace, tokens: frozenset[str], welcome: str) -> None:
    """Serve until SIGTERM or SIGINT."""
    backend = _backend(site, options.backend, internet=options.internet)
    config = CloudConfig(
        tokens=dict.fromkeys(tokens, PROJECT),
        state_file=site.state / "cloud.sqlite",
        public_ipv4=site.public_range,
        public_ipv6=ipv6.of_site(site.id),
        actions=options.actions,
        rate_limit=options.rate_limit,
    )
    app = create_app(config, backend)
    app.add_routes(installer.routes(site.cache, options.k3s))
    if isinstance(backend, MachinesBackend):
        _registry(site, "" if options.internet else NOT_HERE).add_to(app)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def answering(runner: web.AppRunner) -> None:
        if isinstance(backend, MachinesBackend):
            await backend.serve_http(listening(runner))
        daemon.note(site, _running(site, backend, options))
        _say(f"Hetzner Cloud API  http://127.0.0.1:{site.port}/v1 (backend: {backend.name})")
        if welcome:
            _say(welcome)

    try:
        await serve_until(stopped, app, site.port, answering)
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
    return Registry(built.bin / "registry" if built else None, site.state / FOLDER, address, users, elsewhere)


def _running(site: Site, backend: Backend, options: argparse.Namespace) -> daemon.Running:
    k3s = str(options.k3s.resolve()) if options.k3s else ""
    own = processes.identify(os.getpid())
    start_time, boot_id = (own.start_time, own.boot_id) if own else (0, "")
    return daemon.Running(
        os.getpid(), backend.name, options.actions, k3s, site.port, start_time, boot_id, options.internet
    )


def _say(text: str) -> None:
    print(text, flush=True)
