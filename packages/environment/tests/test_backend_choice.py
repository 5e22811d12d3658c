import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import daemon, packages
from sandbox.backend_choice import AUTO, Host, decide, look
from sandbox.environment import HOLLOW, MACHINES
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.kubernetes.components import COMPONENTS
from sandbox.prepare import agree
from tests.child_processes import run

BARE = {
    MACHINES: packages.missing({MACHINES, packages.BUILD}, lambda _proof: False),
    HOLLOW: packages.missing({HOLLOW}, lambda _proof: False),
}
READY = Host("Linux", "6.12.0")
ROOTLESS = replace(READY, root=False, installable=False, obstacle="machines need root")
hosts = st.builds(
    Host,
    system=st.sampled_from(["Linux", "Darwin", "FreeBSD", ""]),
    release=st.sampled_from(["6.12.0", "5.15.153.1-microsoft-standard-WSL2"]),
    root=st.booleans(),
    installable=st.booleans(),
    obstacle=st.sampled_from([None, "machines need root", "machines need cgroups"]),
    missing=st.sampled_from([{}, BARE, {MACHINES: BARE[MACHINES][:2]}]),
)


def test_a_bare_debian_gets_packages_and_machines():
    choice = decide(AUTO, replace(READY, missing=BARE))
    assert (choice.kind, choice.reason) == (MACHINES, "")
    assert {"iproute2", "haproxy", "libseccomp-dev", "mmdebstrap"} <= {p.name for p in choice.packages}


def test_without_root_hollow_nodes_need_neither_a_compiler_nor_a_runtime():
    choice = decide(AUTO, replace(ROOTLESS, missing=BARE))
    assert choice.kind == HOLLOW
    assert [package.name for package in choice.packages] == ["openssl"]
    (components,) = choice.toolchains
    assert {program for c in components for program in c.programs} == {"hyperkube"}
    assert not any(component.needs_gcc for component in components)
    assert "sudo ./dev up" in choice.reason


def test_missing_packages_are_named_with_the_command():
    missing = {MACHINES: BARE[MACHINES], HOLLOW: ()}
    choice = decide(AUTO, replace(READY, installable=False, missing=missing))
    assert (choice.kind, choice.packages) == (HOLLOW, ())
    assert "sudo apt-get install --no-install-recommends gcc" in choice.reason
    with pytest.raises(MissingRequirement, match=r"openssl \(.*sudo apt-get install .* openssl"):
        packages.ensure(BARE[HOLLOW], print, lambda: False)


@given(host=hosts, wanted=st.sampled_from([AUTO, MACHINES, HOLLOW]))
def test_a_chosen_backend_is_used_or_an_error(host, wanted):
    try:
        choice = decide(wanted, host)
    except MissingRequirement:
        assert host.system != "Linux" or wanted == MACHINES
        return
    assert wanted in {AUTO, choice.kind}
    assert set(choice.packages) <= set(BARE[choice.kind])
    if choice.kind == MACHINES:
        assert host.obstacle is None
        assert host.installable or not choice.packages
    elif wanted == AUTO:
        assert choice.reason


def test_a_compiler_is_needed_only_to_compile(site):
    def missing(kind, needs=()):
        return set(look(site, needs, found=lambda _proof: False).missing[kind])

    assert missing(MACHINES) == set(BARE[MACHINES])
    assert missing(HOLLOW) == set(BARE[HOLLOW])
    for component in COMPONENTS:
        (site.cache / "toolchain" / component.key).mkdir(parents=True)
    names = {package.name for package in missing(MACHINES)}
    assert "haproxy" in names
    assert "gcc" not in names
    assert "gcc" in {package.name for package in missing(HOLLOW, [packages.BUILD])}


PRETEND_MACOS = """
import asyncio, os, platform, select, signal, subprocess, sys, urllib.request
sys.platform = "darwin"
platform.system = lambda: "Darwin"
for module, names in {
    os: "setns unshare pidfd_open sched_getaffinity memfd_create eventfd".split(),
    signal: ["pidfd_send_signal", "SIGRTMIN", "SIGRTMAX"],
    select: ["epoll"],
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

def no_proc(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])

sys.addaudithook(no_proc)
from pathlib import Path
from sandbox import dev
dev.ROOT = Path(sys.argv[1])
sys.exit(dev.main(sys.argv[2:]))
"""


def test_up_on_macos(tmp_path):
    # What macOS lacks is taken away from a Python of ours; it shows how far the commands come.
    command = [sys.executable, "-c", PRETEND_MACOS, str(tmp_path), "up"]
    done = run(command, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith("✗ servers need a Linux kernel, but this host runs macOS"), done.stderr
    assert done.stderr.count("\n") == 1


def test_commands_that_run_on_macos(site, tmp_path):
    command = [sys.executable, "-c", PRETEND_MACOS, str(tmp_path), "serve", "--backend", "records"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as serving:
        assert serving.stdout is not None
        try:
            said = next((line for line in serving.stdout if b"/v1" in line), b"nothing")
            assert str(site.port).encode() in said
            assert daemon.health(site) is not None
        finally:
            serving.terminate()
    assert daemon.find(site) is None


def test_hollow_nodes_are_built_after_a_question():
    hollow = decide(AUTO, ROOTLESS)
    asked = []

    def answer(yes):
        return lambda text: asked.append(text) or yes

    agree(hollow, unbuilt=True, question=answer(yes=True))
    with pytest.raises(SandboxError, match=r"sudo \./dev up"):
        agree(hollow, unbuilt=True, question=answer(yes=False))
    assert len(asked) == 2
    agree(hollow, unbuilt=False, question=answer(yes=False))
    agree(hollow, unbuilt=True, question=None)
    agree(decide(HOLLOW, ROOTLESS), unbuilt=True, question=answer(yes=False))
    assert len(asked) == 2
