"""Kubernetes for the sandbox: the toolchain, the machine image, and what serves the k3s stand-in."""
