"""Writes the version into the chart, and manifests/ from it: ``python charts/render.py``.

``ccm/version.py`` is the one source of the version, the chart that of the manifests. Tests compare what
this would write with the files that are there.
"""

import os
import re
import subprocess
from pathlib import Path

from ccm.version import VERSION
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import HELM
from sandbox.site import cache_directory

HERE = Path(__file__).parent
CHART = HERE / "ccm-from-scratch"
MANIFESTS = HERE.parent / "manifests"
_MADE = "# Made by charts/render.py from charts/ccm-from-scratch."
_HOW = f"""\
{_MADE}
# Before you run `kubectl apply -f manifests/` on your cluster:
#   1. kubectl -n kube-system create secret generic hcloud --from-file=token=FILE \\
#        --from-literal=network=NAME-OR-ID \\
#        --from-literal=cluster="$(kubectl get namespace kube-system -o jsonpath='{{.metadata.uid}}')"
#   2. set the image below to yours (./dev image --push REGISTRY/NAME:TAG)
#   3. set --cluster-cidr, if your Pods have another range
"""
_BASE = """\
# The base of an overlay: docs/guides/kustomize.md.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - rbac.yaml
  - deployment.yaml
"""
_FILES = {"deployment.yaml": ("workload.yaml", _HOW), "rbac.yaml": ("rbac.yaml", f"{_MADE}\n")}
_OPERATOR = "monitoring.coreos.com/v1/PrometheusRule"


def with_version(chart: str) -> str:
    """The text of Chart.yaml with this tree's version in it, for the chart and for what it installs."""
    return re.sub(r"^(version|appVersion): .*$", rf"\1: {VERSION}", chart, flags=re.MULTILINE)


def rendered(helm: Path) -> dict[str, str]:
    """The files of manifests/ by path in it.

    Kustomize reads no file outside of a base's folder, and ``kubectl apply -f manifests/`` takes every file
    for an object; so the base has a folder of its own, with the same objects. So have the alerts, which
    only clusters with the Prometheus operator know.

    Raises:
        subprocess.CalledProcessError: Helm refuses the chart; it has said why.
    """
    objects = {name: (head, _template(helm, template)) for name, (template, head) in _FILES.items()}
    return {
        **{name: head + text for name, (head, text) in objects.items()},
        **{f"kustomize/{name}": f"{_MADE}\n{text}" for name, (_, text) in objects.items()},
        "kustomize/kustomization.yaml": f"{_MADE}\n{_BASE}",
        "monitoring/prometheusrule.yaml": f"{_MADE}\n{_template(helm, 'prometheusrule.yaml')}",
    }


def _template(helm: Path, template: str) -> str:
    command = [helm, "template", "ccm-from-scratch", CHART, "--namespace=kube-system"]
    command += [f"--values={HERE / 'manifests.yaml'}", f"--api-versions={_OPERATOR}"]
    command += [f"--show-only=templates/{template}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("# Source: ")]
    return re.sub(r"\n{2,}", "\n", "\n".join(lines).removeprefix("---\n") + "\n")


if __name__ == "__main__":
    about = CHART / "Chart.yaml"
    about.write_text(with_version(about.read_text(encoding="utf-8")), encoding="utf-8")
    built = toolchain.ensure(cache_directory(os.environ), print, [HELM])
    for name, text in rendered(built.bin / "helm").items():
        (MANIFESTS / name).write_text(text, encoding="utf-8")
