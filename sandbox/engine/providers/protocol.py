"""The messages of Pulumi's provider protocol, without the rest of its SDK, which takes a second to load."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_NAME = "ccmfs_pulumi_proto"


def _load() -> list[ModuleType]:
    spec = importlib.util.find_spec("pulumi")
    if spec is None or spec.origin is None:
        raise ImportError("the Python SDK of Pulumi is missing")
    package = ModuleType(_NAME)
    package.__path__ = [str(Path(spec.origin).parent / "runtime" / "proto")]
    sys.modules[_NAME] = package
    names = ("provider_pb2", "provider_pb2_grpc", "plugin_pb2", "status_pb2", "engine_pb2", "engine_pb2_grpc")
    return [importlib.import_module(f"{_NAME}.{name}") for name in names]


provider_pb2, provider_pb2_grpc, plugin_pb2, status_pb2, engine_pb2, engine_pb2_grpc = _load()
