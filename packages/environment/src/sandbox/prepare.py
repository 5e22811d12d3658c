"""Set-up: packages, toolchain, machine image; each is kept and only made when its pins have changed."""

import os
from collections.abc import Callable

from sandbox import packages, pulumi
from sandbox.backend_choice import Choice
from sandbox.console import Steps
from sandbox.environment import MACHINES
from sandbox.errors import SandboxError
from sandbox.kubernetes import estimate, machine_image, toolchain
from sandbox.kubernetes.components import PULUMI
from sandbox.site import Clone

_MEANWHILE = """\
• Programs are being built. Meanwhile, you can use the following in another terminal:
  {sudo}.venv/bin/python -m sandbox serve --backend records: the emulated Hetzner Cloud API, until Ctrl-C
  {sudo}./dev test unit: the linters and the fast tests
  docs/README.md: the documentation"""
"""With sudo, files belong to root until the command ends."""


def announce(choice: Choice, steps: Steps) -> None:
    """Print why servers aren't machines."""
    if choice.reason:
        steps.note(f"• servers are only API records; simulated Nodes run no Pods. Reason: {choice.reason}")


def agree(choice: Choice, *, unbuilt: bool, question: Callable[[str], bool] | None) -> None:
    """Ask a person at the terminal before a build of several minutes that they may not want."""
    text = f"Build Kubernetes for simulated Nodes ({choice.build_time})?"
    if choice.reason and unbuilt and question is not None and not question(text):
        raise SandboxError(f"nothing was built. {choice.reason[0].upper()}{choice.reason[1:]}")


def prepare(clone: Clone, steps: Steps, choice: Choice) -> toolchain.Toolchain:
    """Make everything that an environment needs before it starts; returns its Kubernetes' programs."""
    with steps.step("Debian packages") as progress:
        packages.ensure(choice.packages, progress)
    if any(toolchain.unbuilt(clone.cache, one) for one in choice.toolchains):
        steps.note(_MEANWHILE.format(sudo="sudo " if os.environ.get("SUDO_UID") else ""))
    first = f"Kubernetes toolchain (first build: {choice.build_time})"
    with steps.step(first, "Kubernetes toolchain") as progress:
        built = [toolchain.ensure(clone.cache, progress, one) for one in choice.toolchains]
    first = f"Pulumi CLI (first build: {estimate.first_time([PULUMI])})"
    with steps.step(first, "Pulumi CLI") as progress:
        pulumi.ensure(clone, progress)
    if choice.kind == MACHINES:
        with steps.step("Machine image (first build: ≈ 3 min)", "Machine image") as progress:
            machine_image.ensure(clone.cache, built[0], progress)
    return built[-1]
