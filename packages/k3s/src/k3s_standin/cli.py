"""The command ``k3s``: runs a subcommand, and reports each failure in one line and a status."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from k3s_standin import configfile, log, nodeconfig, paths
from k3s_standin.api import ApiError
from k3s_standin.balancer import Balancer
from k3s_standin.certificates import CertificateError
from k3s_standin.children import Children
from k3s_standin.clients import run_at_once, words_of
from k3s_standin.errors import ChildEndedError, K3sError, UsageError
from k3s_standin.flags import Parsed, Value, help_text, is_flag, parse
from k3s_standin.join import Joined
from k3s_standin.node import (
    data_folders,
    enforce_policies,
    follow_servers,
    register_node,
    start_node,
)
from k3s_standin.options import NodeOptions, agent_options, server_options

USAGE = """\
k3s - the stand-in for k3s in the ccm-from-scratch sandbox. It runs upstream Kubernetes

  k3s server [FLAGS]     run a server: the control plane and a node
  k3s agent [FLAGS]      run an agent: only a node
  k3s kubectl ...        run kubectl
  k3s ctr ...            run ctr, the command of containerd
  k3s etcd-snapshot ...  save, list, prune or delete etcd snapshots (save, ls, prune, delete)
  k3s token create       print the token for new nodes
  k3s token generate     print a random token
  k3s --version
"""
_ABSENT = {
    "crictl": "use `k3s ctr` or `k3s kubectl`",
    "secrets-encrypt": (
        "to encrypt Secrets, start the first server with --secrets-encryption. The key can't be rotated"
    ),
    "certificate": "the certificates are valid for ten years, so you don't need to rotate them",
    "completion": "use `kubectl completion`",
}


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    try:
        return _dispatch(words_of(argv))
    except UsageError as error:
        print(f"k3s: {error}", file=sys.stderr)
        return 2
    except (K3sError, CertificateError, ApiError, OSError, subprocess.SubprocessError) as error:
        log.fatal(str(error))
        return 1


def _dispatch(words: list[str]) -> int:
    run_at_once(words)
    command = words[0] if words else "--help"
    if command in {"--help", "-h", "help"}:
        print(USAGE, end="")
    elif command in {"server", "agent", "etcd-snapshot"}:
        if {"--help", "-h"} & set(words[1:]):
            print(help_text(command))
            return 0
        return _snapshot(words[1:]) if command == "etcd-snapshot" else _serve(command, words[1:])
    elif command == "token":
        print(_token(words[1:]))
    elif command in _ABSENT:
        raise UsageError(f"the stand-in for k3s doesn't support `k3s {command}`: {_ABSENT[command]}")
    else:
        raise UsageError(f"unknown command {command!r}\n\n{USAGE}")
    return 0


def _token(words: Sequence[str]) -> str:
    if words[:1] == ["generate"]:
        return secrets.token_hex(16)
    if words[:1] != ["create"]:
        raise UsageError(
            "k3s token: the stand-in for k3s supports only `k3s token create` and `k3s token generate`"
        )
    try:
        return paths.NODE_TOKEN.read_text().strip()
    except FileNotFoundError:
        raise UsageError(
            f"the file {paths.NODE_TOKEN} is missing, because no k3s server has started on this machine"
        ) from None


def read_flags(command: str, words: Sequence[str], variables: Mapping[str, str]) -> Parsed:
    """Flags from command line, environment and configuration file; raises UsageError."""
    settings = read_settings(command, words, variables)
    return parse(command, words, variables=variables, settings=settings)


def read_settings(command: str, words: Sequence[str], variables: Mapping[str, str]) -> dict[str, Value]:
    """The settings of the configuration file, which flags or environment may name; raises UsageError."""
    first = parse(command, words, variables=variables)
    return configfile.load(Path(str(first.values.get("config") or configfile.CONFIG_FILE)))


def _snapshot(words: Sequence[str]) -> int:
    # Other commands don't need the modules of a server.
    from k3s_standin import snapshot_command  # noqa: PLC0415

    parsed = read_flags("etcd-snapshot", words, os.environ)
    snapshot_command.run(parsed.arguments, parsed.values)
    return 0


def _serve(command: str, words: Sequence[str]) -> int:
    if not paths.PROGRAMS.is_dir():
        raise UsageError(
            f"{paths.PROGRAMS} is missing. The stand-in for k3s runs only on machines of the sandbox"
        )
    parsed = read_flags(command, words, os.environ)
    for line in parsed.warnings:
        log.warning(line)
    os.environ["PATH"] = f"{paths.PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    data_folders()
    return asyncio.run(_until_stopped(command, parsed, start_annotations(command, words, os.environ)))


def start_annotations(command: str, words: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """The annotations about a node's start.

    As in k3s, flags of the file that a server ignores are left out: one may be a misspelled secret.
    """
    settings = read_settings(command, words, variables)
    in_file = configfile.arguments({name: said for name, said in settings.items() if is_flag(command, name)})
    return nodeconfig.config_annotations([command, *in_file, *words], variables)


async def _until_stopped(command: str, parsed: Parsed, started_with: Mapping[str, str]) -> int:
    """Run until systemd says stop (status 0) or a component ends (an error)."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    children = Children(paths.PROGRAMS, paths.LOGS, own_session=False)
    work = asyncio.create_task(_work(command, parsed, started_with, children))
    waiting = asyncio.create_task(stopped.wait())
    watching = asyncio.create_task(_watch(children))
    try:
        done, _ = await asyncio.wait({work, waiting, watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            _raise_plainly(task)
        return 0
    finally:
        for task in (work, waiting, watching):
            task.cancel()
        await children.stop()


def _raise_plainly(task: asyncio.Task[Any]) -> None:
    """Raise a task's error; of an exception group, the first: a user reads one line."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error:
        raise error


async def _watch(children: Children) -> None:
    """Ends with an error when a component does."""
    while True:
        try:
            children.check()
        except ChildEndedError as error:
            if error.component == "etcd":
                from k3s_standin.datastore import Datastore  # noqa: PLC0415 -- a server's, as above

                Datastore().bury(error.tail)
            raise
        await children.until_one_ends()


async def _work(command: str, parsed: Parsed, started_with: Mapping[str, str], children: Children) -> None:
    hostname = socket.gethostname()
    if command == "server":
        # An agent doesn't need these modules, and needs less memory without.
        from k3s_standin.reset import reset  # noqa: PLC0415
        from k3s_standin.server import run_server  # noqa: PLC0415

        addresses = own_addresses()
        options = server_options(parsed.values, hostname, addresses[0])
        options = replace(options, node=replace(options.node, started_with=started_with))
        if options.reset:
            await reset(children, options)
            return
        await run_server(children, options, addresses)
        return
    agent = agent_options(parsed.values, hostname)
    node = replace(agent.node, started_with=started_with)
    balancer = Balancer(agent.server, agent.balancer_port) if agent.balancer_port else None
    joined = await start_node(children, node, agent.server, agent.token, balancer)
    log.info("k3s agent is up and running")
    log.notify("READY=1")
    if balancer is None:
        await _be_agent(children, node, agent.server, joined)
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow_servers(balancer, joined))
            tasks.create_task(_be_agent(children, node, balancer.url, joined))
    finally:
        await balancer.stop()


async def _be_agent(children: Children, node: NodeOptions, server: str, joined: Joined) -> None:
    await register_node(children, node, server, joined)
    await enforce_policies(node, server, joined)


def own_addresses() -> tuple[str, ...]:
    """The global addresses of this machine, as in ``hostname -I``; loopback without any."""
    done = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True, timeout=10)
    return tuple(done.stdout.split()) or ("127.0.0.1",)
