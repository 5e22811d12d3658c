"""Kubernetes' own end-to-end tests, run against the cluster of this clone."""
