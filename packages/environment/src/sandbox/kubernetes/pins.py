"""Moving the pinned Go modules to newer versions: what ``./dev lock go`` does."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sandbox.kubernetes import components
from sandbox.kubernetes.components import (
    COMPONENTS,
    CRANE,
    HELM,
    KUBERNETES,
    PULUMI,
    REGISTRY,
    Component,
    pinned_version,
)
from sandbox.kubernetes.go import build_environment, find_go
from sandbox.kubernetes.processes import Progress, run

_KUBERNETES = "k8s.io/kubernetes"
_STAGING = re.compile(r"^\s*(k8s\.io/\S+) => \./staging/", re.MULTILINE)
_REPLACED = re.compile(r"^replace \(\n.*?^\)\n", re.MULTILINE | re.DOTALL)


def with_staging(go_mod: str, kubernetes: str, version: str) -> str:
    """Replace Kubernetes' own libraries with those of its version.

    Its go.mod requires them as v0.0.0, which no proxy has: upstream builds them from its own repository.
    """
    staging = version.replace("1.", "0.", 1)
    lines = "".join(f"\t{name} => {name} v{staging}\n" for name in _STAGING.findall(kubernetes))
    kept = _REPLACED.sub("", go_mod).rstrip("\n")
    return f"{kept}\n\nreplace (\n{lines})\n"


def lock(cache: Path, progress: Progress, *, keep: bool) -> None:
    """Write go.mod and go.sum of the toolchain, and those of the other versions of Kubernetes."""
    go = find_go(cache, progress)
    pinned = {one.pin for one in (*COMPONENTS, HELM, PULUMI, REGISTRY, CRANE) if one.pin}
    _lock(go, components.MODULES, [] if keep else [f"{pin}@upgrade" for pin in sorted(pinned)], progress)
    for component in KUBERNETES[1:]:
        with tempfile.TemporaryDirectory() as folder:  # its go.mod is independent of the other programs
            shutil.copytree(component.source, Path(folder, component.name))
            _lock_alone(go, component, Path(folder), progress, keep=keep)


def _lock_alone(go: str, component: Component, folder: Path, progress: Progress, *, keep: bool) -> None:
    files = (component.go_mod, component.go_mod.with_name("go.sum"))
    for file in files:
        shutil.copy(file, folder)
    _lock(go, folder, [] if keep else [f"{component.pin}@patch"], progress)
    for file in files:
        shutil.copy(folder / file.name, file)


def _lock(go: str, folder: Path, wanted: Sequence[str], progress: Progress) -> None:
    environment = build_environment(os.environ, cgo=False, parallel=1) | {"GOFLAGS": "-mod=mod"}

    def go_command(*arguments: str) -> str:
        what = f"go {' '.join(arguments[:3])}"
        return run(what, (go, *arguments), progress=progress, cwd=folder, environment=environment)

    if wanted:
        go_command("get", *wanted)
    file = folder / "go.mod"
    version = pinned_version(file.read_text(), _KUBERNETES)
    printed = go_command("mod", "download", "-json", f"{_KUBERNETES}@v{version}")
    found = json.loads(printed[printed.index("{") :])
    file.write_text(with_staging(file.read_text(), Path(found["GoMod"]).read_text(), version))
    go_command("mod", "tidy")
