"""``./dev run``: the CCM of this tree, or a program of yours, on this host in place of the cluster's."""

import argparse
import base64
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccm.tools.deployed_settings import Object, Source, pod_of, settings, sources
from ccmfs_common.host import port_is_free
from sandbox import cluster, daemon, takeover
from sandbox.built_kubernetes import built_toolchain
from sandbox.commands.deploy import check_source, snapshot
from sandbox.console import Steps
from sandbox.environment import HOLLOW
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.exit_codes import end_in_order
from sandbox.hollow import ccm
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site

HELP = "run the CCM of this clone, or your own CCM, on this host instead of in the cluster; Ctrl-C ends it"
EDITOR_PORT = 5678
"""debugpy's default port."""

LOOK_SECONDS = 0.5
STOP_SECONDS = 20


@dataclass(frozen=True)
class Wanted:
    """What is run."""

    command: Sequence[str]  # the command line
    variables: Mapping[str, str]  # the environment, Secrets' values among them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What runs, how it is looked at, and whether it follows the sources."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="your own Python program that accepts the CCM's flags, such as the one in docs/tutorial",
    )
    parser.add_argument("--debug", action="store_true", help="log all details (--v=4)")
    parser.add_argument(
        "--editor",
        type=int,
        nargs="?",
        const=EDITOR_PORT,
        metavar="PORT",
        help=f"wait until an editor connects to debugpy at 127.0.0.1:PORT (default: {EDITOR_PORT}). "
        "--editor disables leader election, because a paused process can't renew its lease",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="restart the CCM whenever a file in ccm/ or a Python file in FILE's folder changes",
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Run it; returns its exit code, 0 after Ctrl-C."""
    steps, built = Steps(), built_toolchain(site)
    hollow = daemon.require(site).backend == HOLLOW
    check_editor(arguments.editor)
    files = sources_of(site.root, arguments.file)
    check_source(site.root, files())
    beside = Wanted(ccm.command(site.kubeconfig), ccm.variables(site)) if hollow else None
    wanted = with_program(beside or _as_in_the_cluster(site, built), arguments.file)
    wanted = with_options(wanted, debug=arguments.debug, editor=arguments.editor)
    place = _hollow_place(site) if hollow else takeover.taken(site, built, steps.note)
    end_in_order()
    with place as noted:
        steps.note("✓ the CCM in the cluster is stopped; the CCM on this host runs until Ctrl-C")
        if arguments.editor is not None:
            steps.note(f"• debugpy listens on 127.0.0.1:{arguments.editor}; the CCM waits for an editor")
        code = run_until_ended(site.root, wanted, noted, files, steps.note, watch=arguments.watch)
    if code:
        raise SandboxError(f"the CCM ended with exit code {code}; its log is above")
    return 0


def check_editor(port: int | None) -> None:
    """Make sure that an editor can connect, if the CCM is to wait for one."""
    if port is not None and not 0 < port < 1 << 16:
        raise SandboxError(f"--editor {port}: give a TCP port, 1 to 65535")
    if port is not None and not port_is_free(port):
        raise SandboxError(f"--editor {port}: another program uses this port; choose another port")
    if port is not None and importlib.util.find_spec("debugpy") is None:
        raise MissingRequirement(
            "--editor requires debugpy, which isn't installed. Run: .venv/bin/uv pip install debugpy"
        )


def sources_of(root: Path, file: Path | None) -> Callable[[], list[Path]]:
    """A function that lists the current Python sources: the CCM's, and those in the file's folder."""
    if file is not None and not file.is_file():
        raise SandboxError(f"{file}: the file doesn't exist")
    folder = None if file is None else file.resolve().parent

    def sources() -> list[Path]:
        return sorted([*(root / "ccm").rglob("*.py"), *(folder.glob("*.py") if folder else ())])

    return sources


def with_program(wanted: Wanted, file: Path | None) -> Wanted:
    """The same settings for the user's program in place of the CCM."""
    if file is None:
        return wanted
    python, _, _, *flags = wanted.command
    variables = {**wanted.variables, "PYTHONUNBUFFERED": "1"}  # what it prints is seen at once
    if token := variables.pop("HCLOUD_TOKEN_FILE", ""):
        variables.setdefault("HCLOUD_TOKEN", Path(token).read_text(encoding="ascii").strip())
    return Wanted([python, str(file.resolve()), *flags], variables)


def with_options(wanted: Wanted, *, debug: bool, editor: int | None) -> Wanted:
    """The same with what was asked for on the command line."""
    program, *words = wanted.command
    if debug:
        words.append("--v=4")
    if editor is not None:
        # A process that is paused at a breakpoint renews no lease.
        listen = ["-Xfrozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{editor}"]
        words = [*listen, "--wait-for-client", *words, "--leader-elect=false"]
    return Wanted([program, *words], wanted.variables)


def here(pod: Object, contents: Mapping[Source, Mapping[str, str]], site: Site) -> Wanted:
    """The Deployment's flags and environment, and how cloud and cluster are reached from this host."""
    deployed = settings(pod, contents, ccm.outside(site.endpoint))
    kubeconfig = str(site.kubeconfig)
    flags = [f"--{name}={kubeconfig}" for name in _KUBECONFIGS]
    # On the host's ports, two clones would be in each other's way.
    command = [sys.executable, "-m", "ccm", *deployed.flags, *flags, "--secure-port=0"]
    return Wanted(command, {**ccm.kept(os.environ), **deployed.variables, **ccm.outside(site.endpoint)})


_KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")


def _as_in_the_cluster(site: Site, built: Toolchain) -> Wanted:
    pod = pod_of(cluster.deployment(site, built))
    wanted = sources(pod, ccm.outside(site.endpoint))
    return here(pod, {source: _content(site, built, source) for source in wanted}, site)


def _content(site: Site, built: Toolchain, source: Source) -> dict[str, str]:
    """What a Secret or ConfigMap holds; nothing where it is not there, for it may be optional."""
    kind, name = source
    only = f"--field-selector=metadata.name={name}"
    for item in cluster.get(site, built, kind, "--namespace=kube-system", only):
        data = item.get("data") or {}
        if kind == "secrets":
            return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
        return dict(data)
    return {}


@contextmanager
def _hollow_place(site: Site) -> Iterator[Callable[[int], None]]:
    """Stop the CCM's process of hollow nodes during a block; if we are killed, './dev up' starts it."""
    with takeover.alone(site):
        ccm.stop(site)
        try:
            yield lambda _pid: None
        finally:
            ccm.start(site)


def run_until_ended(
    root: Path,
    wanted: Wanted,
    noted: Callable[[int], None],
    sources: Callable[[], Sequence[Path]],
    say: Callable[[str], None],
    *,
    watch: bool,
) -> int:
    """Run it until it ends or is interrupted; returns its exit code, 0 where we ended it."""
    while True:
        child = subprocess.Popen(
            # With it the kernel ends the CCM when we are killed.
            ["setpriv", "--pdeathsig", "TERM", *wanted.command],
            cwd=root,
            env=dict(wanted.variables),
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is ours; a second signal would end it before it has released its lease
        )
        try:
            noted(child.pid)
            if not _changed(root, child, sources, say, watch=watch):
                return child.returncode
            say("• a source file has changed: restarting")
        except KeyboardInterrupt:
            return 0
        finally:
            _end(child)


def _changed(
    root: Path,
    child: subprocess.Popen[bytes],
    sources: Callable[[], Sequence[Path]],
    say: Callable[[str], None],
    *,
    watch: bool,
) -> bool:
    """With ``watch``, wait until a source has changed: True. Else, until the process has ended: False."""
    seen, running = snapshot(sources()), True
    while watch or child.poll() is None:
        if running and child.poll() is not None:
            running = False
            say(
                f"✗ the CCM ended with exit code {child.returncode}; the next change of a source file "
                "starts the CCM again"
            )
        time.sleep(LOOK_SECONDS)
        if (now := snapshot(files := sources())) == seen:
            continue
        seen = now
        if not watch:
            say(
                "• a source file has changed: restart './dev run', or use --watch to restart the CCM "
                "automatically"
            )
            continue
        try:
            check_source(root, files)
        except SandboxError as error:
            say(f"✗ {error}")
        else:
            return True
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it, so that it releases its lease; at once where it does not in time."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
