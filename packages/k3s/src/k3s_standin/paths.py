"""Paths on a machine: k3s's where users look, the image's elsewhere."""

from pathlib import Path

from k3s_standin.versions import IMAGE_VERSION, VERSION

PLUGINS = Path("/opt/cni/bin")

DATA = Path("/var/lib/rancher/k3s")
PROGRAMS = (
    Path("/usr/local/lib/kubernetes/bin") if VERSION == IMAGE_VERSION else DATA / "data" / VERSION / "bin"
)
"""The folder of the Kubernetes programs. The programs come from the machine image, or from another release
that the installer downloaded."""

SERVER = DATA / "server"
ENCRYPTION = SERVER / "cred/encryption-config.json"
MANIFESTS = SERVER / "manifests"
STORAGE = DATA / "storage"
"""The default folder for volumes with the StorageClass ``local-path``."""

AGENT = DATA / "agent"
BALANCER = AGENT / "etc/k3s-agent-load-balancer.json"
LOGS = Path("/var/log/k3s")
IMAGES = AGENT / "images"
NODE_PASSWORD = Path("/etc/rancher/node/password")
KUBECONFIG = Path("/etc/rancher/k3s/k3s.yaml")
REGISTRIES = Path("/etc/rancher/k3s/registries.yaml")
NODE_TOKEN = SERVER / "node-token"

CONTAINERD_ROOT = Path("/var/lib/containerd")
"""The machine's prepared container store."""

CONTAINERD_SOCKET = Path("/run/k3s/containerd/containerd.sock")
CONTAINERD_CONFIG = AGENT / "etc/containerd/config.toml"
CONTAINERD_DROPINS = AGENT / "etc/containerd/config-v3.toml.d"
CERTS = AGENT / "etc/containerd/certs.d"
RUNC = AGENT / "etc/containerd/runc"
"""A script that containerd runs in place of runc. The script then runs runc."""

CRYPTSETUP = AGENT / "etc/containerd/cryptsetup"
"""The program that replaces cryptsetup in containers if the kernel has no device mapper."""

CNI_CONFIGURATION = Path("/etc/cni/net.d")
