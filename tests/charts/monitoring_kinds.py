"""The Prometheus operator's definitions of its kinds, out of its Go module: what API servers check."""

import json
import os
from pathlib import Path
from typing import Any

import yaml

from sandbox.errors import MissingRequirement
from sandbox.kubernetes.go import build_environment, find_go
from sandbox.site import cache_directory
from tests import child_processes
from tests.prepared import missing

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.94.1"
SUM = "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww="
GROUP = "/apis/monitoring.coreos.com/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definitions(*plurals: str) -> list[dict[str, Any]]:
    """CustomResourceDefinitions by their plural names; skips the test where the module can't be had."""
    try:
        go = find_go(cache_directory(os.environ), print)
    except MissingRequirement as error:
        missing(error)
    environment = build_environment(os.environ, cgo=False, parallel=1)
    download = [go, "mod", "download", "-json", MODULE]
    done = child_processes.run(download, timeout=300, cwd="/", env=environment)
    module = json.loads(done.stdout or "{}")
    if "Dir" not in module:
        missing(f"{MODULE} can't be had: {module.get('Error', done.stderr)}")
    assert module["Sum"] == SUM
    folder = Path(module["Dir"]) / "example" / "prometheus-operator-crd"
    return [
        yaml.safe_load((folder / f"monitoring.coreos.com_{plural}.yaml").read_text(encoding="utf-8"))
        for plural in plurals
    ]
