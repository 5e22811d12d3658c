"""A Kubernetes cloud-controller-manager for Hetzner Cloud, written to be read."""
