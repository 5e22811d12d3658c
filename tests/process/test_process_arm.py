"""The image for ARM at work on this machine, by Debian's emulation of one process.

Nothing is registered with the kernel and nothing needs root: a script named python starts the image's own
Python in the emulator, and child processes by that script as well.
"""

import asyncio
import dataclasses
import shutil
from pathlib import Path

import pytest
from process_world import World

from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.manager.serving import tls
from image import recipe
from image.build import build, cache_folder
from image.bytecode import Compiler
from image.layer import unpack
from image.platforms import ARM64
from image.source import read_source
from image.tree import File
from sandbox import packages

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1500),
]

SECONDS = 600  # the emulator is ten times slower than the machine, and others use that, too
PATIENT = ("--leader-elect-lease-duration=300s", "--leader-elect-renew-deadline=240s")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image, unpacked."""
    (image,) = build(read_source(), cache_folder(), [ARM64])
    folder = tmp_path_factory.mktemp("arm")
    for layer in image.blobs[1:]:
        unpack(layer.content, folder)
    return folder


@pytest.fixture(scope="module")
def python(root: Path) -> str:
    """The command for the image's Python; it lies beside that, where Python looks for its library."""
    (emulator,) = (package for package in packages.PACKAGES if packages.EMULATION in package.needs)
    program = shutil.which(emulator.proof)
    if program is None:
        pytest.skip(f"{emulator.proof} is not installed: {packages.install_command([emulator])}")
    script = root / "usr/bin/python"
    # -0: sys.executable is this script, so that it is what the CCM starts child processes with
    script.write_text(f'#!/bin/sh\nexec {program} -0 "$0" -L {root} {root / recipe.PROGRAM} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def arm(world: World, root: Path, python: str) -> World:
    modules = f"{root / recipe.APPLICATION}:{root / recipe.SITE}"
    return dataclasses.replace(world, python=python, modules=modules)  # shares its list of processes


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Flags with a certificate, since making one has an end that is too near for the emulator."""
    made, folder = tls.make_certificate(), tmp_path_factory.mktemp("tls")
    (folder / "certificate").write_bytes(made.certificate)
    (folder / "key").write_bytes(made.key)
    return f"--tls-cert-file={folder / 'certificate'}", f"--tls-private-key-file={folder / 'key'}"


async def test_it_is_an_arm_python_also_in_child_processes(python: str, root: Path) -> None:
    code = "import platform, subprocess, sys; print(platform.machine(), flush=True)"
    child = f"{code}; subprocess.run([sys.executable, *sys.argv[1:]], env={{}}, check=True)"
    openssl = root / recipe.APPLICATION / "ccm/manager/serving/openssl.py"
    process = await asyncio.create_subprocess_exec(
        python, "-c", child, "-I", "-S", str(openssl), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    machine, _, certificate = said.decode().partition("\n")
    assert (process.returncode, machine) == (0, ARM64.machine)
    assert "-----BEGIN CERTIFICATE-----" in certificate


async def test_a_server_with_an_arm_processor_would_build_the_same_image(python: str, root: Path) -> None:
    """What its Python compiles is what this machine's has compiled."""
    folder = root / recipe.APPLICATION / "ccm/controllers"
    sources = {path.relative_to(root).as_posix(): File(path.read_bytes()) for path in folder.glob("*.py")}
    compiled = await asyncio.to_thread(Compiler((python,)).compiled, sources)
    assert len(compiled) == len(sources) > 1
    assert [path for path, entry in compiled.items() if (root / path).read_bytes() != entry.content] == []


async def test_it_plans_and_then_does_what_it_planned(arm: World, certificate: tuple[str, str]) -> None:
    server = await arm.machine("ampere", 14, server_type="cax11")
    code, planned = await arm.run("plan", *arm.flags)
    assert code == 0, planned
    assert f"set provider ID hcloud://{server['id']}" in planned
    assert "create route to" in planned
    assert await arm.routes() == {}

    ccm = await arm.start(*certificate, *PATIENT)
    node = await arm.node(
        "ampere",
        lambda node: UNINITIALIZED_TAINT not in {taint["key"] for taint in node["spec"].get("taints", [])},
        SECONDS,
    )
    assert node["spec"]["providerID"] == f"hcloud://{server['id']}"
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "cax11"
    await arm.eventually(arm.routes, lambda found: "10.0.0.14" in found.values(), SECONDS)
    assert await ccm.stop() == 0
    assert '"level":"error"' not in ccm.text()
