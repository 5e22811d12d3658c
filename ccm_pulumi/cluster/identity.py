"""The identity of a cluster, for all objects in it. It stays the same while any control server of it exists.

A cluster with one control server is lost with that server, unless it is restored from a snapshot. With
several it survives each of them. Its identity is derived from its first server, and stays when it has only
one again.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, DiffResult

from ..lib.dynamic import Provider, ProviderResource, is_unknown
from ..lib.errors import AnotherClusterError, InfraError


class ClusterIdentityProvider(Provider):
    """Records the identity.

    The name is an input that this class adds by itself, as plugins add a random name: so ``preview`` knows
    it, and the inputs of the last run say whether there were several control servers then.
    """

    id_format = "cluster"

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Adds the cluster's name: the one that it has, as long as it is the same cluster. Refuses settings
        of another cluster if several control servers or a snapshot have this one. Refuses another name of its
        cloud provider.
        """
        refuse_another(_olds, news)
        generation = named(_olds, news)
        before, wanted = _olds.get("provider"), news.get("provider")
        if before and wanted and before != wanted and _olds.get("generation") == generation:
            raise InfraError(
                f"ccm-from-scratch:cloudProviderName: {wanted!r} is not possible, because the provider IDs "
                f"of this cluster's Nodes begin with {before}://. Kubernetes can't change a provider ID, "
                f"and a cloud-controller-manager with the name {wanted} would remove these Nodes from all "
                "load balancers. To keep the cluster: pulumi config set ccm-from-scratch:cloudProviderName "
                f"{before}. To use {wanted}, create another stack, or run pulumi destroy and then pulumi up"
            )
        return CheckResult({**news, "generation": generation}, [])

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Another name is another cluster.

        To find out what a server's replacement also replaces, Pulumi asks with the inputs of the last run.
        Those that come from that server are then unknown.
        """
        outlives = _news["several"] or _news.get("snapshots")
        lost = is_unknown(_news["text"]) and not outlives
        another = lost or _news["generation"] != _olds["generation"]
        replaces = ["generation"] if another else []
        return DiffResult(changes=another, replaces=replaces, delete_before_replace=True)


class ClusterIdentity(ProviderResource, provider=ClusterIdentityProvider):
    """The cluster's name for everything in it.

    It is declared after all control servers: one that has not joined keeps nothing of a cluster whose first
    is lost. Inputs:

    - text: What the cluster would be called after its first control server as it is.
    - several: Whether it has more than one, and outlives the first.
    - begun: Whether the first of them began a cluster when it was installed, and joined none.
    - provider: Begins the provider IDs of its Nodes.
    - settings: Values by key. If one of them changes, no control server can stay in the cluster.
    - snapshots: Whether it can be restored from a snapshot; None: no.
    - restores: Whether it is restored from one if all of its control servers are lost; None: no.
    """

    generation: pulumi.Output[str]


def named(olds: dict[str, Any], news: dict[str, Any]) -> str:
    """The cluster's name. A new cluster has no ``olds``; the text in ``news`` may be unknown."""
    has = olds.get("generation")
    # it may be unknown
    outlived = olds.get("several") and news.get("begun") is not True
    same = outlived or news.get("restores") or olds.get("text") == news.get("text")
    return has if has and same else news.get("text", "")


def refuse_another(olds: dict[str, Any], news: dict[str, Any]) -> None:
    """Refuses settings with which no control server can stay and no snapshot can be restored. The servers
    would leave the cluster one by one, and the last one could not join again. Earlier versions recorded no
    settings in ``olds``.
    """
    if not olds.get("several") and not news.get("restores"):
        return
    recorded: dict[str, str] = olds.get("settings") or {}
    wanted: dict[str, str] = news.get("settings") or {}
    for key, before in recorded.items():
        if key in wanted and wanted[key] != before:
            raise AnotherClusterError(key, before, wanted[key])
