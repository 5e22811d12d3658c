"""Which Kubernetes this clone's environment has, and its programs, for commands that only run them.

A hollow cluster keeps its first version until ``./dev down``: Kubernetes allows no downgrade, and a restart
must not upgrade it.
"""

from hetzner_machines import records
from sandbox import stack_settings
from sandbox.backend_choice import present
from sandbox.environment import HOLLOW, STACKS
from sandbox.errors import SandboxError
from sandbox.kubernetes import releases, toolchain
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.site import Clone


def find_toolchain(clone: Clone) -> toolchain.Toolchain | None:
    """Programs of the version that this clone's environment has, else of the default one, or None."""
    own = toolchain.find(clone.cache, releases.control_plane(version_here(clone)))
    return own or toolchain.find(clone.cache, CONTROL_PLANE)


def version_here(clone: Clone) -> str:
    """The Kubernetes version of this clone's environment, or the default."""
    kind = present(clone)
    if kind == HOLLOW and (kept := hollow_version(clone)):
        return kept
    try:
        return stack_settings.Settings(clone, STACKS[kind]).kubernetes if kind else releases.default()
    except SandboxError:  # the setting is invalid; './dev up' reports it
        return releases.default()


def built_toolchain(clone: Clone, version: str = "") -> toolchain.Toolchain:
    """The toolchain, for commands that don't build it."""
    own = toolchain.find(clone.cache, releases.control_plane(version)) if version else None
    built = own if version else find_toolchain(clone)
    if built is None:
        raise SandboxError(
            "the Kubernetes toolchain has not been built yet; './dev up' or './dev setup' builds it"
        )
    return built


def hollow_version(site: Clone) -> str:
    """The cluster's version; empty without a cluster, or if the sandbox no longer has that version."""
    try:
        noted = (site.control_plane / "version").read_text().strip()
    except FileNotFoundError:
        return ""
    return noted if noted in releases.versions() else ""


def begin_hollow(site: Clone, asked: str = "") -> str:
    """The version that the cluster is started with, kept from now on."""
    version = hollow_version(site) or asked or stack_settings.Settings(site, STACKS[HOLLOW]).kubernetes
    site.control_plane.mkdir(exist_ok=True)
    records.write(site.control_plane / "version", f"{version}\n")
    return version


def refuse_another(site: Clone, wanted: str) -> None:
    """Make sure that the cluster has what is asked for."""
    if (there := hollow_version(site)) and there != wanted:
        raise SandboxError(
            f"Kubernetes {wanted}: the simulated Nodes of this clone run Kubernetes {there}. To change the "
            "version, first run './dev down'"
        )
