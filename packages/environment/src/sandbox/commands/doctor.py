"""``./dev doctor``: what is there, what is missing, and how to get it."""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from sandbox import daemon, limits, packages
from sandbox.backend_choice import AUTO, Choice, decide, look, present
from sandbox.built_kubernetes import version_here
from sandbox.environment import MACHINES
from sandbox.errors import MissingRequirement
from sandbox.kubernetes import estimate, machine_image, toolchain
from sandbox.kubernetes.components import PULUMI
from sandbox.limits import Finding
from sandbox.overview import aligned
from sandbox.pulumi_cli import cli
from sandbox.site import Clone, noted

HELP = "show which programs are installed and which are missing"
WITHOUT_ADDRESSES = True
MARKS = {"ok": "✓", "stop": "✗", "note": "•"}
_SECONDS = 30


def run(clone: Clone, _arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if something that is needed is missing."""
    found = list(examine(clone))
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    print(f"{system}, {os.cpu_count()} CPUs, Python environment {sys.prefix}")
    rows = [(MARKS[one.severity], one.what, one.found, one.remedy) for one in found]
    print(aligned([(mark, what, text + (remedy and f" → {remedy}")) for mark, what, text, remedy in rows]))
    return int(any(one.severity == "stop" for one in found))


def examine(clone: Clone) -> Iterator[Finding]:
    """Look at everything that an environment depends on; changes nothing."""
    yield Finding("ok", "Python", platform.python_version())
    try:
        choice = replace(decide(present(clone) or AUTO, look(clone)), kubernetes=version_here(clone))
    except MissingRequirement as error:
        yield Finding("stop", "servers", str(error))
        return
    yield _servers(choice)
    yield _packages(choice)
    yield _go()
    yield from limits.look(clone, choice)
    built = all(toolchain.find(clone.cache, one) for one in choice.toolchains)
    yield _kept("Kubernetes toolchain", built, choice.build_time)
    if choice.kind == MACHINES:
        yield _kept("machine image", machine_image.find(clone.cache) is not None, "≈ 3 min")
    yield from pulumi_checks(os.environ, clone.cache)
    yield _addresses(clone)
    yield _running(clone)


def _servers(choice: Choice) -> Finding:
    if choice.kind == MACHINES:
        return Finding("ok", "servers", "Linux machines")
    reason = choice.reason or "the option --backend hollow"
    found = f"each server is only an API record, and its simulated Node runs no Pods. Reason: {reason}"
    return Finding("note", "servers", found)


def _packages(choice: Choice) -> Finding:
    if not choice.packages:
        return Finding("ok", "Debian packages", "all required ones are installed")
    names = ", ".join(package.name for package in choice.packages)
    if packages.installable():
        return Finding("note", "Debian packages", f"{names} missing", "./dev up installs them")
    return Finding("stop", "Debian packages", f"{names} missing", packages.install_command(choice.packages))


def _go() -> Finding:
    found = shutil.which("go")
    if found:
        return Finding("ok", "Go", found)
    return Finding("note", "Go", "not on PATH", "'./dev up' uses pip to install Go into the cache")


def _kept(what: str, there: bool, takes: str) -> Finding:  # noqa: FBT001 - two states of one thing
    if there:
        return Finding("ok", what, "in the cache")
    return Finding("note", what, "not made yet", f"./dev up makes it ({takes})")


def pulumi_checks(environment: Mapping[str, str], cache: Path) -> Iterator[Finding]:
    """What runs the Pulumi program here, and whether it has what it needs."""
    found = cli.find(cache, environment)
    if found is None:
        takes = estimate.first_time([PULUMI])
        yield Finding("note", "Pulumi CLI", "not on PATH, and not built yet", f"./dev up builds it ({takes})")
    else:
        version = _version_of(found.path, environment)
        if version is None:
            yield Finding("stop", "Pulumi CLI", f"{found.path} does not run", "repair it, or remove it")
            return
        sdk = metadata.version("pulumi")
        yield Finding("ok", "Pulumi CLI", f"{version} (the SDK is {sdk}), {found.path}")
    for plugin in cli.plugins(environment):
        yield _plugin(plugin, downloads=found is not None and not found.built)


def _version_of(program: Path, environment: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            [str(program), "version"],
            env={**environment, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.strip()
    return said if done.returncode == 0 and re.fullmatch(r"v?\d+\.\d+\.\d+\S*", said) else None


def _plugin(plugin: cli.Plugin, *, downloads: bool) -> Finding:
    what = f"Pulumi plugin {plugin.name}"
    if plugin.official:
        return Finding("ok", what, f"{plugin.official} (the SDK is {plugin.version})")
    install = f"pulumi plugin install resource {plugin.name} {plugin.version}"
    own = "the sandbox's plugin"
    found = f"'./dev up' downloads the official plugin, or uses {own}" if downloads else own
    return Finding("note", what, found, f"for servers at Hetzner: {install}")


def _addresses(clone: Clone) -> Finding:
    claim = noted(clone)
    if claim is None:
        return Finding("note", "this clone's addresses", "none yet", "./dev up claims some")
    return Finding(
        "ok", "this clone's addresses", f"127.0.0.1:{claim.port}, machines in {claim.public_range}"
    )


def _running(clone: Clone) -> Finding:
    running = daemon.find(clone)
    if running is None:
        return Finding("note", "sandbox", "not running", "./dev up")
    if daemon.health(clone) is None:
        return Finding("stop", "sandbox", f"process {running.pid} does not answer", f"see {clone.log}")
    out = ", machines can reach the Internet (--internet)" if running.internet else ""
    return Finding("ok", "sandbox", f"process {running.pid}, {running.backend} backend{out}")
