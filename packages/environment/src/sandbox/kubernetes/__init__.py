"""Kubernetes for the sandbox: the toolchain, the machine image, and the server of the k3s stand-in."""
