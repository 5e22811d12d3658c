"""What is typed on a server to install k3s: flags and scripts, as pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

API_PORT = 6443
FOLDER = "/etc/rancher/k3s"
KUBECONFIG_PATH = f"{FOLDER}/k3s.yaml"
UNINSTALL = "/usr/local/bin/k3s-uninstall.sh"
INSTALL_SECONDS = 420.0


@dataclass(frozen=True)
class Release:
    """Which k3s: from where the installer comes, and which version it shall install.

    Attributes:
        install_url: of the installer; may end with `#sha256=` and its hash, without which any is run. It
            checks the k3s that it fetches against the checksums of that release by itself.
        channel: of releases, followed where there is no version.
        version: an exact one.
    """

    install_url: str
    channel: str
    version: str

    def environment(self) -> dict[str, str]:
        """The installer's variables. An exact version beats a channel."""
        if self.version:
            return {"INSTALL_K3S_VERSION": self.version}
        return {"INSTALL_K3S_CHANNEL": self.channel} if self.channel else {}


@dataclass(frozen=True)
class Addresses:
    """A server's two addresses."""

    public: str
    private: str


def server_flags(at: Addresses, cluster_cidr: str, service_cidr: str) -> list[str]:
    """Flags of `k3s server`: cloud-controller-manager, load balancers and CNI are not k3s's own."""
    return [
        "--disable-cloud-controller",
        f"--cluster-cidr={cluster_cidr}",
        f"--service-cidr={service_cidr}",
        "--disable=traefik,servicelb,local-storage",
        "--flannel-backend=none",
        "--disable-network-policy",
        f"--tls-san={at.public}",
        *node_flags(at),
    ]


def node_flags(at: Addresses) -> list[str]:
    """Flags of every node: its addresses, and the taint until the cloud-controller-manager knows it."""
    return [
        "--kubelet-arg=cloud-provider=external",
        f"--node-ip={at.private}",
        f"--node-external-ip={at.public}",
    ]


def server_script(
    release: Release, at: Addresses, flags: Sequence[str], token: str, *, cluster: str | None
) -> str:
    """Installs or changes the server; ends when its API answers.

    Args:
        release: which k3s.
        at: the server's addresses.
        flags: of `k3s server`.
        token: what agents must know.
        cluster: the cluster's identity; an installation of another cluster is removed first. None: whatever
            is installed stays.
    """
    environment = {**release.environment(), "K3S_TOKEN": token}
    return "\n".join(
        [
            _PREAMBLE,
            _wait_for_address(at.private),
            remove_another_cluster(cluster) if cluster else "",
            _fetch_installer(release.install_url),
            _run_installer(environment, ["server", *flags]),
        ]
    )


def agent_script(release: Release, at: Addresses, server_ip: str, token: str, *, anew: bool) -> str:
    """Installs or changes an agent and starts it without waiting: it tries until its server answers.

    Args:
        release: which k3s.
        at: the agent's addresses.
        server_ip: private address of the k3s server.
        token: what the server was installed with.
        anew: what an earlier installation left is removed first, its certificates included.
    """
    environment = {
        **release.environment(),
        "INSTALL_K3S_SKIP_START": "true",
        "K3S_URL": f"https://{server_ip}:{API_PORT}",
        "K3S_TOKEN": token,
    }
    return "\n".join(
        [
            _PREAMBLE,
            _wait_for_address(at.private),
            _uninstall("/usr/local/bin/k3s-agent-uninstall.sh") if anew else "",
            _fetch_installer(release.install_url),
            _run_installer(environment, ["agent", *node_flags(at)]),
            "systemctl restart --no-block k3s-agent",
        ]
    )


def remove_another_cluster(cluster: str, folder: str = FOLDER, uninstall: str = UNINSTALL) -> str:
    """Uninstalls the server unless it is this cluster's, and notes whose it will be.

    An installation that was interrupted is gone on with: agents may have joined what it began, and a cluster
    made anew would refuse them.

    Args:
        cluster: the cluster's identity, a word without secrets.
        folder: where it is noted; the uninstaller removes it.
        uninstall: k3s's uninstaller.
    """
    note = f"{folder}/cluster-of-ccm-from-scratch"
    return f"""if [ "$(cat {note} 2>/dev/null)" != {cluster} ]; then
  {_uninstall(uninstall)}
  install -d -m 755 {folder}
  echo {cluster} > {note}
fi"""


def _uninstall(path: str) -> str:
    return f"if [ -x {path} ]; then {path} </dev/null >/dev/null 2>&1; fi"


_PREAMBLE = """set -eu
umask 077"""


def _wait_for_address(private_ip: str) -> str:
    # the private interface appears some seconds after the server was attached to the network
    return f"""n=0
until ip -4 -o address show | grep -qF ' {private_ip}/'; do
  n=$((n + 1))
  [ "$n" -lt 600 ] || {{ echo 'the private address {private_ip} did not appear within 60 s' >&2; exit 1; }}
  sleep 0.1
done"""


def _fetch_installer(url: str) -> str:
    bare, _, digest = url.partition("#sha256=")
    address = shlex.quote(bare)
    fetch = f"""installer=$(mktemp)
trap 'rm -f "$installer"' EXIT
curl -sSfL --connect-timeout 10 --max-time 60 --retry 5 -o "$installer" {address}"""
    if not digest:
        return fetch
    return f"""{fetch}
found=$(sha256sum < "$installer" | cut -c 1-64)
[ "$found" = {digest} ] || {{
  echo {address} "has the SHA-256 $found, and ccm-from-scratch:k3sInstallUrl asks for" {digest} >&2
  exit 1
}}"""


def _run_installer(environment: Mapping[str, str], arguments: Sequence[str]) -> str:
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    # the installer must not read the rest of this script from standard input
    return f'{exports}\nsh "$installer" {shlex.join(arguments)} </dev/null'
