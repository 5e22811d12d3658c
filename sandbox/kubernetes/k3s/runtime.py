"""Containerd: its configuration, the native Pod network, and images from k3s's air-gap folder."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

from sandbox.kubernetes.k3s import log, paths
from sandbox.kubernetes.k3s.children import Children
from sandbox.kubernetes.k3s.errors import K3sError
from sandbox.kubernetes.k3s.versions import PAUSE_IMAGE

GENERATED = "10-containerd-net.conflist"
"""The file that containerd renders from the template when the kubelet learns the node's podCIDR."""

_START_SECONDS = 30.0
_IMPORT_SECONDS = 300.0


def containerd_config() -> str:
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

[plugins.'io.containerd.cri.v1.runtime']
# A machine may not lower the score of a process below its own.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{paths.PLUGINS}']
conf_dir = '{paths.CNI_CONFIGURATION}'
conf_template = '{paths.CNI_TEMPLATE}'
"""


def cni_template() -> str:
    """The native network: a bridge with addresses of the node's podCIDR, nothing between nodes.

    Another node's Pods are reached by the cloud network's routes. Traffic to them keeps the Pod's address, so
    the bridge does not masquerade. The bridge takes a new address when the node gets another podCIDR.
    """
    ranges = '[{{range $i, $c := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$c}}"}]{{end}}]'
    routes = '[{{range $i, $r := .Routes}}{{if $i}}, {{end}}{"dst": "{{$r}}"}{{end}}]'
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "forceAddress": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": "RANGES", "routes": "ROUTES"},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    text = json.dumps({"cniVersion": "1.0.0", "name": "native", "plugins": [bridge, portmap]}, indent=2)
    return text.replace('"RANGES"', ranges).replace('"ROUTES"', routes)


def masquerade_rules(cluster_cidr: str) -> str:
    """Rules for nft: what Pods send to the world leaves with the node's address, as a cloud demands.

    Args:
        cluster_cidr: addresses of Pods; among them nothing is translated.
    """
    ranges = [text for text in cluster_cidr.split(",") if ":" not in text]
    rules = "".join(
        f"    ip saddr {source} ip daddr != {{ {', '.join(ranges)}, 224.0.0.0/4 }} masquerade\n"
        for source in ranges
    )
    chain = f"  chain postrouting {{\n    type nat hook postrouting priority srcnat;\n{rules}  }}\n"
    # The first line makes the second succeed whether or not the table is there.
    return f"table ip k3s-native\ndelete table ip k3s-native\ntable ip k3s-native {{\n{chain}}}\n"


def write_configuration() -> None:
    """Write containerd's files; a network configuration of an earlier podCIDR is rendered anew."""
    for folder in (paths.CONTAINERD_CONFIG.parent, paths.CNI_TEMPLATE.parent, paths.CNI_CONFIGURATION):
        folder.mkdir(parents=True, exist_ok=True)
    paths.CONTAINERD_CONFIG.write_text(containerd_config())
    paths.CNI_TEMPLATE.write_text(cni_template())
    (paths.CNI_CONFIGURATION / GENERATED).unlink(missing_ok=True)


def masquerade(cluster_cidr: str) -> None:
    """Put the rules of ``masquerade_rules`` in force, and let the machine forward.

    Raises:
        K3sError: nft refuses.
    """
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    done = subprocess.run(
        ["nft", "-f", "-"],
        input=masquerade_rules(cluster_cidr),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    if done.returncode != 0:
        raise K3sError(f"nft refuses the rules for Pods' outgoing traffic: {done.stderr.strip()}")


async def start(children: Children) -> None:
    """Start containerd, wait until it answers, import images.

    Raises:
        K3sError: it does not answer, or an image can't be imported.
        ChildEndedError: it ended.
    """
    await asyncio.to_thread(write_configuration)
    await children.start(["containerd", "--config", str(paths.CONTAINERD_CONFIG)])
    end = time.monotonic() + _START_SECONDS
    while not await _answers():
        children.check()
        if time.monotonic() > end:
            raise K3sError(f"containerd does not answer:\n{children.tail('containerd')}")
        await asyncio.sleep(0.05)
    await asyncio.to_thread(_import_all)


async def _answers() -> bool:
    """Whether the socket accepts; the services behind it are ready then."""
    try:
        _, writer = await asyncio.open_unix_connection(str(paths.CONTAINERD_SOCKET))
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def _import_all() -> None:
    """Import k3s's air-gap images, each once; again when its file has changed."""
    for archive in sorted(paths.IMAGES.glob("*.tar")):
        done = archive.with_name(f".{archive.name}.imported")
        stamp = str(archive.stat().st_mtime_ns)
        if not (done.exists() and done.read_text() == stamp):
            log.info(f"Importing images from {archive}")
            _import(archive)
            done.write_text(stamp)


def _import(archive: Path) -> None:
    command = [
        paths.PROGRAMS / "ctr",
        "-a",
        paths.CONTAINERD_SOCKET,
        "-n",
        "k8s.io",
        "images",
        "import",
        archive,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_IMPORT_SECONDS)
    if result.returncode != 0:
        raise K3sError(f"images can't be imported from {archive}: {result.stderr.strip()}")
