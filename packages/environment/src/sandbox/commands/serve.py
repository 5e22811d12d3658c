"""``./dev serve``: the sandbox process in the foreground; ``./dev up`` starts it in the background."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

from ccmfs_common import host
from hetzner_emulator import standalone
from hetzner_emulator.address import Address
from sandbox import daemon
from sandbox.errors import SandboxError
from sandbox.serve import ServeOptions, choose_kind, serve
from sandbox.site import Clone, Site

HELP = "run the emulated Hetzner Cloud API in the foreground"
STARTS = CLAIMS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen and how the cloud behaves."""
    standalone.add_arguments(parser)
    parser.add_argument("--backend", choices=["auto", "machines", "hollow", "records"], default="auto")
    parser.add_argument("--k3s", type=Path, metavar="FILE", help="serve this real k3s binary to the machines")
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
        raise SandboxError(f"the sandbox of this clone runs already (process {running.pid})")
    port = arguments.port or site.port
    if not host.port_is_free(port):
        raise SandboxError(f"port {port} on 127.0.0.1 is in use; choose another one with --port")
    standalone.log_to_stderr()
    own = replace(site, port=port)
    shown = Address(port, arguments.token or site.token)
    options = ServeOptions(
        port=port,
        backend=arguments.backend,
        actions=arguments.actions,
        rate_limit=arguments.rate_limit,
        k3s=arguments.k3s,
        tokens=frozenset({own.token, shown.token}),
        welcome="" if arguments.no_exports else standalone.welcome(shown),
        internet=arguments.internet,
    )
    with daemon.only_one(site):
        asyncio.run(serve(own, options, lambda text: print(text, flush=True)))
    return 0
