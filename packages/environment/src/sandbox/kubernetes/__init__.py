"""Kubernetes for the sandbox: the toolchain, the machine image, the k3s stand-in and what serves it."""
