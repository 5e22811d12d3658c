"""Names and versions that a person sees."""

from __future__ import annotations

KUBERNETES_VERSION = "v1.36.3"
VERSION = f"{KUBERNETES_VERSION}+k3s1"
COREDNS_IMAGE = "docker.io/rancher/mirrored-coredns-coredns:1.14.7"
PAUSE_IMAGE = "docker.io/rancher/mirrored-pause:3.6"
