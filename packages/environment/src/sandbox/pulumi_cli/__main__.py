"""The command ``pulumi`` of this project's environment: becomes the CLI, which it builds if it is missing."""

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from hetzner_emulator.address import past_proxies
from pulumi_plugins import shared
from sandbox.errors import SandboxError
from sandbox.pulumi_cli import cli
from sandbox.site import cache_directory

ROOT = Path(__file__).parents[5]
_WITH_PLUGINS = {"up", "update", "preview", "refresh", "destroy", "down", "import", "watch"}


def main(arguments: list[str]) -> None:
    """Hand over to the CLI."""
    try:
        found = cli.ensure(cache_directory(os.environ), os.environ, partial(print, "•", file=sys.stderr))
    except SandboxError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    # 'pulumi plugin' is about the user's plugins, which win over the sandbox's once they are installed.
    own = {} if arguments[:1] == ["plugin"] else cli.variables(found, ROOT, os.environ)
    # Go reaches this machine past a proxy by itself, and the Python programs that the CLI starts do not.
    own |= past_proxies(os.environ)
    ours = own.get("PULUMI_HOME") == str(cli.home_of(ROOT)) and _WITH_PLUGINS.intersection(arguments)
    # another project may have other modules of these names
    program = cli.PROGRAM if Path.cwd() in {ROOT, ROOT / "infra"} else "pulumi"
    with shared.serving({**os.environ, **own}, Path.cwd(), program) if ours else nullcontext({}) as more:
        os.execve(found.path, ["pulumi", *arguments], {**os.environ, **own, **more})  # noqa: S606  the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
