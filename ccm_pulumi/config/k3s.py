"""The releases, tokens and files of k3s; its flags are in ccm_pulumi/cluster/k3s_flags.py."""

from dataclasses import dataclass, field

API_PORT = 6443
FOLDER = "/etc/rancher/k3s"
KUBECONFIG_PATH = f"{FOLDER}/k3s.yaml"
NOTE = f"{FOLDER}/cluster-of-ccm-from-scratch"
"""Path of a file on each control server. The file identifies the k3s installation."""
FORMER_NOTE = f"{NOTE}.left"
"""The same file after the server left its cluster."""
ENCRYPTION = f"{FOLDER}/config.yaml.d/secrets-encryption.yaml"
ENCRYPTED = "secrets-encryption: true\n"
"""Content of the file ``ENCRYPTION``. The file exists only if k3s encrypts Secrets."""
DATASTORE = "/var/lib/rancher/k3s/server/db"
CNI_FOLDER = "/etc/cni/net.d"
"""containerd's default folder for CNI configuration files. If Flannel is disabled, containerd in k3s also
uses this folder. k3s's uninstaller doesn't delete the folder."""

CNI_FILES = ("10-native.conflist", "05-cilium.conflist")
"""Names of the files that ccm_pulumi/cluster/pod_network.py and Cilium write to ``CNI_FOLDER``."""

COMPONENTS = ("coredns", "local-storage", "metrics-server")
"""k3s components that you can disable."""

SNAPSHOT = "/root/ccm-from-scratch-snapshot"
"""Path of the etcd snapshot from which a cluster is restored."""
POD_SECURITY = f"{FOLDER}/pod-security.yaml"
"""Path of the configuration file for Pod Security admission. The file sets the default level."""
STORE = f"{FOLDER}/config.yaml.d/etcd-s3.yaml"
"""Path of the configuration file for uploads of snapshots to S3. The file contains secrets."""


@dataclass(frozen=True)
class Release:
    """Which k3s: from where the installer comes, and which version it shall install."""

    # may end with ``#sha256=`` and the installer's hash, without which any is run; the installer itself
    # checks k3s against the checksums of its release
    install_url: str
    channel: str  # followed if there is no exact version
    version: str

    def environment(self) -> dict[str, str]:
        """The installer's variables. An exact version beats a channel."""
        if self.version:
            return {"INSTALL_K3S_VERSION": self.version}
        return {"INSTALL_K3S_CHANNEL": self.channel} if self.channel else {}


@dataclass(frozen=True)
class Tokens:
    """With these, machines join a cluster. Servers know both, agents only the agent token."""

    server: str = field(repr=False)  # its holder is an administrator
    agent: str = field(repr=False)
