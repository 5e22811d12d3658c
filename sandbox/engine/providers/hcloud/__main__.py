"""``pulumi-resource-hcloud``."""

from __future__ import annotations

from importlib.metadata import version

from sandbox.engine.providers.hcloud.provider import HcloudProvider
from sandbox.engine.providers.serve import serve

if __name__ == "__main__":
    serve(HcloudProvider, version("pulumi-hcloud"))
