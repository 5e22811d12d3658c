"""Everything that stands in for what a laptop or CI lacks: a cloud, machines, Kubernetes, an engine."""
