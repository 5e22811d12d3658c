"""Containerd: its configuration, and images from k3s's air-gap folder."""

import asyncio
import subprocess
import time
from pathlib import Path

from k3s_standin import log, paths, registries
from k3s_standin.certificates import write_secret
from k3s_standin.children import Children
from k3s_standin.errors import K3sError
from k3s_standin.registries import Registries
from k3s_standin.versions import PAUSE_IMAGE

_START_SECONDS = 30.0
_IMPORT_SECONDS = 300.0
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
_UNKNOWN_HERE = (".tar.bz2", ".tbz", ".tar.lz4", ".txt")
"""File name extensions that k3s accepts in its air-gap folder, but the stand-in doesn't. They belong to
other archive formats and to image lists."""


def containerd_config(asked: Registries = registries.NONE) -> str:
    """Containerd's configuration; files in config-v3.toml.d override it, as in k3s."""
    return f"""\
version = 3
root = '{paths.CONTAINERD_ROOT}'
state = '{paths.CONTAINERD_SOCKET.parent}'
imports = ['{paths.CONTAINERD_DROPINS}/*.toml']

[grpc]
address = '{paths.CONTAINERD_SOCKET}'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE_IMAGE}'

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '{paths.CERTS}'

{registries.credentials(asked)}
[plugins.'io.containerd.cri.v1.runtime']
# A process in a machine isn't allowed to set an OOM score below the machine's OOM score.
restrict_oom_score_adj = true
# Only 'crictl stats' uses these statistics, because the kubelet measures Pods itself. The default is 1s.
stats_collect_period = '1m'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{paths.RUNC}'

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{paths.PLUGINS}']
conf_dir = '{paths.CNI_CONFIGURATION}'
"""


NO_DEVICE_MAPPER = """\
#!/bin/sh
# The sandbox created this script. The kernel has no device mapper, so no encrypted device is active.
if [ "$1" = status ]; then
  echo "/dev/mapper/$2 is inactive."
  exit 4
fi
echo "cryptsetup: the kernel has no device mapper, so volumes can't be encrypted in this sandbox" >&2
exit 1
"""
"""A replacement for cryptsetup. Without a device mapper, ``cryptsetup status`` fails with exit status 1.

Hetzner's CSI driver runs ``cryptsetup status`` before it unmounts a volume, and accepts only the exit
statuses 0 and 4 (internal/volumes/cryptsetup.go). Without this script, Pods with a volume would never
terminate.
"""

_INSTEAD = """\
for word in "$@"; do
  [ "$before" = --bundle ] && root=$word/rootfs
  before=$word
done
for folder in ${root:+"$root/sbin" "$root/usr/sbin"}; do
  # Links in the image may point to files outside the image.
  [ -L "$root/usr" ] || [ -L "$folder" ] || [ ! -f "$folder/cryptsetup" ] ||
    cp --remove-destination CRYPTSETUP "$folder/cryptsetup"
done
"""


def runc_script(nanoseconds: int, misc: str) -> str:
    """The program that containerd runs as runc: runc, with punctual timers.

    Containerd's timers have slack, as those of all components. Containers would inherit it, so the program
    sets theirs to ``nanoseconds``. If the kernel has no device mapper (``misc``: text of /proc/misc),
    :data:`NO_DEVICE_MAPPER` replaces a new container's cryptsetup.
    """
    instead = "" if "device-mapper" in misc else _INSTEAD.replace("CRYPTSETUP", str(paths.CRYPTSETUP))
    punctual = f"echo {nanoseconds} > /proc/$$/timerslack_ns\n"
    return f'#!/bin/sh\n{punctual}{instead}exec {paths.PROGRAMS}/runc "$@"\n'


def write_configuration(asked: Registries) -> None:
    """Write containerd's files, readable by root only: they may have passwords."""
    registries.write_host_files(paths.CERTS, registries.host_files(asked))
    write_secret(paths.CONTAINERD_CONFIG, containerd_config(asked))
    ours = int(Path("/proc/self/timerslack_ns").read_text())
    write_secret(paths.RUNC, runc_script(ours, Path("/proc/misc").read_text()), mode=0o700)
    write_secret(paths.CRYPTSETUP, NO_DEVICE_MAPPER, mode=0o755)


async def start(children: Children, registries_file: Path) -> None:
    """Start containerd, wait until it answers, import images."""
    asked = registries.load(registries_file)
    for line in asked.warnings:
        log.warning(line)
    await asyncio.to_thread(write_configuration, asked)
    await children.start(["containerd", "--config", str(paths.CONTAINERD_CONFIG)])
    end = time.monotonic() + _START_SECONDS
    while not await _answers():
        children.check()
        if time.monotonic() > end:
            raise K3sError(f"containerd does not answer:\n{children.tail('containerd')}")
        await asyncio.sleep(0.05)
    await asyncio.to_thread(_import_all)


async def _answers() -> bool:
    """Whether the socket accepts; then the services behind it are ready."""
    try:
        _, writer = await asyncio.open_unix_connection(str(paths.CONTAINERD_SOCKET))
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def _import_all() -> None:
    """Import k3s's air-gap images, each file once; again after a change.

    As in k3s, a failure is logged, and neither other images nor the node's start are affected.
    """
    for archive in sorted(path for path in paths.IMAGES.glob("*") if path.is_file()):
        name = archive.name.lower()
        if name.endswith(_UNKNOWN_HERE):
            log.warning(
                f"the images in {archive} are not imported, because the stand-in for k3s accepts only "
                f"{', '.join(_ARCHIVES)}"
            )
        if name.startswith(".") or not name.endswith(_ARCHIVES):
            continue
        done = archive.with_name(f".{archive.name}.imported")
        stamp = str(archive.stat().st_mtime_ns)
        if done.exists() and done.read_text() == stamp:
            continue
        log.info(f"Importing images from {archive}")
        try:
            _import(archive)
        except (K3sError, subprocess.TimeoutExpired) as error:
            log.warning(f"Error encountered while importing {archive}: {error}")
        else:
            done.write_text(stamp)


def _import(archive: Path) -> None:
    options = (f"--address={paths.CONTAINERD_SOCKET}", "--namespace=k8s.io")
    command = [paths.PROGRAMS / "ctr", *options, "images", "import", archive]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_IMPORT_SECONDS)
    if result.returncode != 0:
        raise K3sError(result.stderr.strip())
