"""A CCM as a Pod runs it: with a service account and without a kubeconfig, and ours out of its image.

The files of the service account are where Kubernetes puts them, in a mount namespace of the process.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.lab.report import BenchError, say
from ccm.kube.protocol import Transport
from image.build import build, cache_folder
from image.errors import ImageError
from image.layer import MEDIA_TYPE, unpack
from image.platforms import of_machine
from image.recipe import PROGRAM, settings
from image.source import read_source

_NAME, _NAMESPACE = "ccm", "kube-system"
_ACCOUNTS = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# Arguments: the folder of the account's files, the root of the image or nothing, the command.
_SCRIPT = """
set -e
PATH=$PATH:/usr/sbin:/sbin
files=$1 root=$2
shift 2
mkdir -p "$root/var/run"
run=$(readlink -f "$root/var/run")
mount -t tmpfs none "$run"
mkdir -p "$run/secrets/kubernetes.io/serviceaccount"
cp "$files"/* "$run/secrets/kubernetes.io/serviceaccount"
[ -n "$root" ] || exec "$@"
for place in proc dev; do mount --rbind "/$place" "$root/$place"; done
exec chroot "$root" "$@"
"""


class _Made(msgspec.Struct):
    """Of an object only that it was made, or that a token is in it."""

    status: dict[str, Any] = {}


@dataclass(frozen=True)
class Pod:
    """What a Pod gives a process."""

    files: Path  # token and certificate authority of a service account with all rights
    variables: dict[str, str]  # where the API server is
    root: Path | None  # our image, unpacked; None = the CCM runs out of this tree

    @property
    def place(self) -> str:
        """Where ours runs, for people."""
        return "in a Pod's place, out of " + ("its image" if self.root else "this tree")

    @property
    def python(self) -> str:
        """The Python that runs ours."""
        return f"/{PROGRAM}" if self.root else sys.executable

    def environment(self) -> dict[str, str]:
        """The variables of ours, those of the image included."""
        lines: Any = settings()["Env"] if self.root else []
        return {**dict(line.split("=", 1) for line in lines), **self.variables}

    def command(self, command: Sequence[str], *, inside: bool = True) -> list[str]:
        """The command line that runs another one as in a Pod."""
        root = str(self.root) if self.root and inside else ""
        rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return ["unshare", *rights, "--mount", "sh", "-c", _SCRIPT, "sh", str(self.files), root, *command]


async def make_pod(api: Transport, url: str, authority: bytes, directory: Path, *, image: bool) -> Pod:
    """A service account, and a place to run with it."""
    files = directory / "account"
    files.mkdir()
    await api.create(_ACCOUNTS, {"metadata": {"name": _NAME}}, _Made)
    rights = {
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE}],
    }
    await api.create(_BINDINGS, rights, _Made)
    wanted = {"spec": {"expirationSeconds": 24 * 3600}}
    made = await api.create(f"{_ACCOUNTS}/{_NAME}/token", wanted, _Made)
    (files / "token").write_text(made.status["token"])
    (files / "ca.crt").write_bytes(authority)
    address = urlsplit(url)
    variables = {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    root = await asyncio.to_thread(_unpacked, directory / "image") if image else None
    return Pod(files, variables, root)


def origin(parser: argparse.ArgumentParser) -> None:
    """The argument that says out of what ours runs."""
    can = os.geteuid() == 0 and sys.platform == "linux"
    parser.add_argument(
        "--from",
        dest="origin",
        choices=("image", "tree"),
        default="image" if can else "tree",
        help="run our CCM from its image, which needs root, or from the source code (default: %(default)s)",
    )


def _unpacked(folder: Path) -> Path:
    """The image of this tree for this machine, as a folder."""
    say("unpacking the CCM's image")
    try:
        found = of_machine(platform.machine())
        if found is None:
            raise BenchError(f"there is no image for {platform.machine()}; --from=tree runs without one")
        [made] = build(read_source(), cache_folder(), [found])
    except ImageError as error:
        raise BenchError(f"{error}; --from=tree runs without the image") from error
    for blob in made.blobs:
        if blob.media_type == MEDIA_TYPE:
            unpack(blob.content, folder)
    return folder
