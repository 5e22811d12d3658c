"""What nodes and servers know of the cluster: a copy of the API server's objects that a watch keeps."""

from __future__ import annotations

import threading

import pytest

from sandbox.kubernetes.k3s.mirror import Mirror

NAMES = "/api/v1/namespaces"


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def teams(content):
    """A namespace's team; None: nothing is kept of it."""
    return content["metadata"].get("labels", {}).get("team")


@pytest.mark.slow
def test_a_mirror_follows_the_cluster_and_tells_only_what_matters(shared_plane):
    api = shared_plane.api()
    told = threading.Semaphore(0)
    mirror = Mirror(api, NAMES, teams, told.release)

    def kept():
        assert told.acquire(timeout=60)
        return sorted(mirror.objects.values())

    mirror.start()
    assert kept() == []
    api.request("POST", NAMES, namespace("mirrored", team="a"))
    assert kept() == ["a"]
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"other": "x"}}})
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"team": "b"}}})
    assert kept() == ["b"], "the label of nobody's interest was not told"
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"team": None}}})
    assert kept() == []
    assert not told.acquire(blocking=False)
