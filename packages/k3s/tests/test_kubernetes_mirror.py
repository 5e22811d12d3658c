import threading

import pytest

from k3s_standin.mirror import Mirror

NAMES = "/api/v1/namespaces"


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def teams(content):
    """A namespace's team; None: nothing is kept of it."""
    return content["metadata"].get("labels", {}).get("team")


@pytest.mark.slow
def test_a_mirror_follows_the_cluster(shared_plane):
    api = shared_plane.api()
    changes = threading.Semaphore(0)
    mirror = Mirror(api, NAMES, teams, changes.release)

    def kept():
        assert changes.acquire(timeout=60)
        return sorted(mirror.objects.values())

    mirror.start()
    assert kept() == []
    api.request("POST", NAMES, namespace("mirrored", team="a"))
    assert kept() == ["a"]
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"other": "x"}}})
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"team": "b"}}})
    assert kept() == ["b"], "other labels are no change"
    api.merge(f"{NAMES}/mirrored", {"metadata": {"labels": {"team": None}}})
    assert kept() == []
    assert not changes.acquire(blocking=False)
