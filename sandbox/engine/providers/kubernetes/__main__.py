"""``pulumi-resource-kubernetes``."""

from __future__ import annotations

from importlib.metadata import version

from sandbox.engine.providers.kubernetes.provider import KubernetesProvider
from sandbox.engine.providers.serve import serve

if __name__ == "__main__":
    serve(KubernetesProvider, version("pulumi-kubernetes"))
