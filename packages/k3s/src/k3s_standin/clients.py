"""``k3s --version``, and ``k3s kubectl`` and ``k3s ctr`` with the settings of this machine.

Users and programs call them often, so this imports almost nothing: the imports of the stand-in take longer
than the client.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from k3s_standin import paths
from k3s_standin.errors import UsageError
from k3s_standin.versions import VERSION

_LINKED = ("kubectl", "ctr", "crictl")
"""Names of the links to k3s that the installer creates. A link runs the k3s command of the same name."""


def words_of(argv: Sequence[str]) -> list[str]:
    """The command and its arguments; a link such as ``kubectl`` is the command."""
    name = Path(argv[0]).name
    return [*([name] if name in _LINKED else []), *argv[1:]]


def run_at_once(words: Sequence[str]) -> None:
    """Print the version, or become ``kubectl`` or ``ctr``; returns for other commands."""
    command = words[0] if words else ""
    if command in {"--version", "-v"}:
        print(f"k3s version {VERSION} (stand-in for k3s in the ccm-from-scratch sandbox)")
        sys.exit(0)
    if command == "kubectl":
        os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    elif command == "ctr":
        os.environ.setdefault("CONTAINERD_ADDRESS", str(paths.CONTAINERD_SOCKET))
        os.environ.setdefault("CONTAINERD_NAMESPACE", "k8s.io")
    else:
        return
    program = paths.PROGRAMS / command
    if not program.exists():
        raise UsageError(f"{program} is missing. The stand-in for k3s runs only on machines of the sandbox")
    os.execv(program, list(words))  # noqa: S606 -- the same program with the same arguments
