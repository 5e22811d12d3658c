"""``./dev serve``: the sandbox process in the foreground; ``./dev up`` starts it in the background."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import shlex
from dataclasses import replace
from pathlib import Path

from sandbox import daemon, host
from sandbox.cloud.config import ACTION_MODES
from sandbox.errors import SandboxError
from sandbox.serve import ServeOptions, serve
from sandbox.site import Site

TOKEN = re.compile(r"[!-~]{1,255}")
HELP = "run the emulated Hetzner Cloud API (and its machines) in the foreground"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen and how the cloud behaves."""
    parser.add_argument("--port", type=int, help="on 127.0.0.1; default: the clone's own")
    parser.add_argument(
        "--token",
        help="an API token besides the clone's own, which is the default; other users of this machine see it "
        "in the list of processes. Terraform and Pulumi want 64 characters",
    )
    parser.add_argument(
        "--no-exports", action="store_true", help="don't print what clients need: the output is kept in a log"
    )
    parser.add_argument("--backend", choices=["auto", "machines", "hollow", "records"], default="auto")
    parser.add_argument("--actions", choices=ACTION_MODES, default="instant", help="how long actions take")
    parser.add_argument("--rate-limit", type=int, default=3600, metavar="N", help="requests an hour; 0: none")
    parser.add_argument(
        "--k3s", type=Path, metavar="FILE", help="serve this genuine k3s binary to the machines"
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if arguments.port is not None and not 0 < arguments.port < 1 << 16:
        raise SandboxError(f"--port {arguments.port}: give a TCP port, 1 to 65535")
    if arguments.token is not None and not TOKEN.fullmatch(arguments.token):
        raise SandboxError("--token: give 1 to 255 letters, digits or signs of ASCII, without spaces")
    if arguments.rate_limit < 0:
        raise SandboxError(f"--rate-limit {arguments.rate_limit}: give requests an hour, or 0 for no limit")
    running = daemon.find(site)
    if running:
        raise SandboxError(f"the sandbox of this clone runs already (process {running.pid})")
    daemon.check_k3s(arguments.k3s)
    port = arguments.port or site.port
    if not host.port_is_free(port):
        raise SandboxError(f"port {port} on 127.0.0.1 is in use; choose another one with --port")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    own = replace(site, port=port)
    shown = replace(own, token=arguments.token or site.token)
    options = ServeOptions(
        port=port,
        backend=arguments.backend,
        actions=arguments.actions,
        rate_limit=arguments.rate_limit,
        k3s=arguments.k3s,
        tokens=frozenset({own.token, shown.token}),
        welcome="" if arguments.no_exports else welcome(shown),
    )
    with daemon.only_one(site):
        asyncio.run(serve(own, options, lambda text: print(text, flush=True)))
    return 0


def welcome(site: Site) -> str:
    """What a person needs besides the address, once the API answers.

    Args:
        site: With the port and the token that are in use.
    """
    needed = {"HCLOUD_ENDPOINT": site.endpoint, "HCLOUD_TOKEN": site.token}
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in needed.items()]
    lines = [f"Console            {site.console}", "For clients, in another shell:", *exports]
    return "\n".join(lines)
