"""``./dev ssh NAME [COMMAND …]``: a shell or a command on a machine."""

import argparse
import os

from sandbox import daemon
from sandbox.api import Api
from sandbox.environment import MACHINES
from sandbox.errors import SandboxError
from sandbox.remote import Way, ssh, ways
from sandbox.site import Site

HELP = "log in to a machine, or run a command on it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine and an optional command."""
    parser.usage = "./dev ssh [-h] NAME [COMMAND ...]"
    # One argument: argparse would call an optional REMAINDER required.
    parser.add_argument(
        "words",
        nargs=argparse.PARSER,
        metavar="NAME",
        help="the name of a server, or the end of its name",
    )
    parser.epilog = (
        "If you add a COMMAND, the machine runs the COMMAND, and no shell opens. All words after "
        "NAME belong to the COMMAND."
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Become ssh."""
    require_machines(daemon.require(site))
    if not site.ssh_key.exists():
        raise SandboxError(f"{site.ssh_key.name} is missing, because no machine exists yet; run './dev up'")
    name, *command = arguments.words
    way = choose(ways(site, Api(site.address).list("servers")), name)
    words = [*ssh(site, way), *command]
    os.execvp(words[0], words)  # noqa: S606


def require_machines(running: daemon.Running) -> None:
    """Make sure that there is something to log in to."""
    if running.backend != MACHINES:
        raise SandboxError(
            f"with the backend {running.backend}, servers exist only as API records, so you can't log in"
        )


def choose(servers: dict[str, Way | None], name: str) -> Way:
    """The way to the server that a person means."""
    fitting = [name] if name in servers else [s for s in servers if s.endswith(f"-{name}")]
    if len(fitting) != 1:
        known = ", ".join(sorted(servers)) or "none"
        raise SandboxError(
            f"{'several servers match' if fitting else 'no server matches'} {name!r}; servers: {known}"
        )
    way = servers[fitting[0]]
    if way is None:
        raise SandboxError(f"server {fitting[0]} isn't running, and has no address that this host can reach")
    return way
