"""The container store of the machine image: a /var/lib/containerd with the images that every node needs.

The toolchain's containerd unpacks them once, so that a new machine has them without an import. It runs for a
second in a separate mount namespace, without the Kubernetes plugin, on sockets in a temporary folder.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from platform import machine
from typing import IO

import image.errors
from hetzner_machines import libc, mounts, namespaces
from image import toolbox
from image.build import cache_folder
from image.mirror import open_mirror
from image.platforms import of_machine
from k3s_standin.versions import (
    BUSYBOX_IMAGE,
    COREDNS_IMAGE,
    LOCAL_PATH_IMAGE,
    METRICS_SERVER_IMAGE,
    PAUSE_IMAGE,
)
from sandbox.errors import SandboxError
from sandbox.kubernetes.archive import ContainerImage, write_archive
from sandbox.kubernetes.debian import BUSYBOX, applets
from sandbox.kubernetes.processes import Progress, run
from sandbox.kubernetes.toolchain import Toolchain

FORMAT = f"3 {PAUSE_IMAGE} {COREDNS_IMAGE} {LOCAL_PATH_IMAGE} {METRICS_SERVER_IMAGE} {BUSYBOX_IMAGE}"
"""A part of the store's cache key. The key also covers Debian's packages, the toolchain and the tools image.
Increase the number at the beginning if you change the store in any other way."""

WHOAMI_IMAGE = "docker.io/traefik/whoami:v1.11.0"
"""The workload of the examples. It responds with its host name, the client's address and the request headers.

The image has the name of the public image, so that the examples also work on Hetzner Cloud.
"""

INGRESS_IMAGE = "ccm-from-scratch.local/ingress:1"
"""The image of the ingress controller that the examples use."""

_START_SECONDS = 20.0


def images(toolchain: Toolchain, debian: Path) -> tuple[ContainerImage, ...]:
    """The images that a node finds in its store."""
    return (
        ContainerImage(PAUSE_IMAGE, {"/pause": toolchain.bin / "pause"}, ["/pause"], "65535:65535"),
        ContainerImage(COREDNS_IMAGE, {"/coredns": toolchain.bin / "coredns"}, ["/coredns"]),
        ContainerImage(
            LOCAL_PATH_IMAGE,
            # Its Pod names the program as a command, to be found on PATH.
            {"/bin/local-path-provisioner": toolchain.bin / "local-path-provisioner"},
            ["/bin/local-path-provisioner"],
        ),
        ContainerImage(
            METRICS_SERVER_IMAGE,
            {"/metrics-server": toolchain.bin / "metrics-server"},
            ["/metrics-server"],
            "65534:65534",
        ),
        _busybox(debian / BUSYBOX),
        ContainerImage(INGRESS_IMAGE, {"/ingress": toolchain.bin / "ingress"}, ["/ingress"], "65532:65532"),
        ContainerImage(WHOAMI_IMAGE, {"/whoami": toolchain.bin / "whoami"}, ["/whoami"], "65532:65532"),
    )


def _busybox(program: Path) -> ContainerImage:
    """Busybox, with a link for each of its commands."""
    links = {f"/bin/{name}": "busybox" for name in applets(program)}
    return ContainerImage(BUSYBOX_IMAGE, {"/bin/busybox": program}, ["sh"], links=links)


def containerd_config(root: Path, state: Path) -> str:
    """Configuration of a containerd that only imports images."""
    return (
        "version = 3\n"
        f"root = {str(root)!r}\n"
        f"state = {str(state)!r}\n"
        "disabled_plugins = ['io.containerd.cri.v1.runtime', 'io.containerd.cri.v1.images', "
        "'io.containerd.grpc.v1.cri', 'io.containerd.nri.v1.nri']\n"
        f"[grpc]\naddress = {str(state / 'containerd.sock')!r}\n"
        f"[ttrpc]\naddress = {str(state / 'containerd.sock.ttrpc')!r}\n"
    )


def fetch_tools(target: Path, progress: Progress, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Make the archive of the image of tools, of Debian's packages; returns whether it is there.

    Debian's mirrors keep only the newest version of a package. An environment works without this image, too.
    """
    platform = of_machine(machine())
    if platform is None:
        return False
    progress("machine image: tools for containers")
    try:
        with target.open("wb") as file:
            mirror = open_mirror(cache_folder() / "packages", sleep=sleep)
            toolbox.write(mirror, platform, file)
    except image.errors.ImageError as error:
        progress(f"the image {toolbox.NAME} is missing on the machines: {error}")
        return False
    return True


def build_store(
    target: Path,
    toolchain: Toolchain,
    wanted: Sequence[ContainerImage],
    progress: Progress,
    tools: Path | None,
) -> None:
    """Make the store."""
    progress("machine image: container store")
    # A socket's path must be short, so the state is not kept beside the store.
    with tempfile.TemporaryDirectory(prefix="ccmfs-store-") as folder:
        work = Path(folder)
        config = work / "config.toml"
        config.write_text(containerd_config(target, work / "state"))
        with (work / "log").open("wb") as log:
            containerd = namespaces.in_thread(lambda: _containerd(toolchain, config, log))
            try:
                ctr = (str(toolchain.bin / "ctr"), "-a", str(work / "state/containerd.sock"), "-n", "k8s.io")
                _wait_for(containerd, ctr, work / "log")
                _import_all(wanted, ctr, work, progress, tools)
            finally:
                containerd.terminate()
                containerd.wait(timeout=20)
    for leftover in target.glob("io.containerd.*/**/ingest/*"):
        shutil.rmtree(leftover)


def _containerd(toolchain: Toolchain, config: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start it in a new mount namespace, in a thread that ends."""
    libc.unshare(libc.CLONE_NEWNS)
    if root := mounts.leave_the_hosts():
        os.chroot(root)
    return subprocess.Popen(
        [str(toolchain.bin / "containerd"), "--config", str(config)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={"PATH": f"{toolchain.bin}:/usr/sbin:/usr/bin:/sbin:/bin"},
    )


def _wait_for(containerd: subprocess.Popen[bytes], ctr: tuple[str, ...], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while subprocess.run([*ctr, "version"], capture_output=True, check=False, timeout=10).returncode != 0:
        if containerd.poll() is not None or time.monotonic() > end:
            tail = "\n".join(log.read_text().splitlines()[-10:])
            raise SandboxError(f"could not start containerd to prepare the container store:\n{tail}")
        time.sleep(0.05)


def _import_all(
    images: Sequence[ContainerImage], ctr: tuple[str, ...], work: Path, progress: Progress, tools: Path | None
) -> None:
    archives = {toolbox.NAME: tools} if tools else {}
    for number, wanted in enumerate(images):
        archives[wanted.name] = work / f"{number}.tar"
        write_archive(wanted, archives[wanted.name])
    for name, archive in archives.items():
        command = (*ctr, "images", "import", str(archive))
        run(f"import of {name}", command, progress=progress, timeout=120)
    listed = subprocess.run(
        [*ctr, "images", "ls", "-q"], capture_output=True, text=True, check=True, timeout=20
    )
    missing = archives.keys() - set(listed.stdout.split())
    if missing:
        raise SandboxError(f"the container store does not contain these images: {', '.join(sorted(missing))}")
