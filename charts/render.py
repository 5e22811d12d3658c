"""Writes manifests/ from the chart: ``python charts/render.py``.

The chart is the one source. A test compares what Helm makes of it with the files that are there.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import HELM
from sandbox.site import cache_directory

HERE = Path(__file__).parent
CHART = HERE / "ccm-from-scratch"
MANIFESTS = HERE.parent / "manifests"
_MADE = "# Made by charts/render.py from charts/ccm-from-scratch."
_HOW = f"""\
{_MADE}
# Before `kubectl apply -f manifests/` on a cluster of your own:
#   1. kubectl -n kube-system create secret generic hcloud --from-file=token=FILE \\
#        --from-literal=network=NAME-OR-ID \\
#        --from-literal=cluster="$(kubectl get namespace kube-system -o jsonpath='{{.metadata.uid}}')"
#   2. change the image below to where you published yours (./dev image --push REGISTRY/NAME:TAG)
#   3. change --cluster-cidr, if your Pods have another range
"""
_FILES = {"deployment.yaml": ("workload.yaml", _HOW), "rbac.yaml": ("rbac.yaml", f"{_MADE}\n")}


def rendered(helm: Path) -> dict[str, str]:
    """The files of manifests/ by name.

    Args:
        helm: the program.

    Raises:
        subprocess.CalledProcessError: Helm refuses the chart; it has said why.
    """
    return {name: head + _template(helm, template) for name, (template, head) in _FILES.items()}


def _template(helm: Path, template: str) -> str:
    command = [helm, "template", "ccm-from-scratch", CHART, "--namespace=kube-system"]
    command += [f"--values={HERE / 'manifests.yaml'}", f"--show-only=templates/{template}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("# Source: ")]
    return re.sub(r"\n{2,}", "\n", "\n".join(lines).removeprefix("---\n") + "\n")


if __name__ == "__main__":
    built = toolchain.ensure(cache_directory(os.environ), print, [HELM])
    for name, text in rendered(built.bin / "helm").items():
        (MANIFESTS / name).write_text(text, encoding="utf-8")
