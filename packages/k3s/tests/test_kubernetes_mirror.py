"""What nodes and servers know of the cluster: a copy of the API server's objects that a watch keeps."""

import http.client
import ssl
import threading
from urllib.parse import urlsplit

import pytest

from k3s_standin import pki
from k3s_standin.api import ApiError
from k3s_standin.mirror import Mirror
from k3s_standin.pki import Pki

NAMES = "/api/v1/namespaces"
MAPS = "/api/v1/namespaces/default/configmaps"


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


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 9995])
def test_deeply_nested_objects_hide_no_others(shared_plane, levels):
    api = shared_plane.api()
    deep = '{"f:\xff":' * levels + "{}" + "}" * levels
    fields = (
        f'{{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{deep}}}'
    )
    post(
        shared_plane, MAPS, f'{{"metadata":{{"name":"deep","managedFields":[{fields}]}},"data":{{"a":"b"}}}}'
    )
    changed = threading.Semaphore(0)
    mirror = Mirror(api, MAPS, lambda content: content.get("data"), changed.release)
    try:
        assert api.get(f"{MAPS}/deep")["data"] == {"a": "b"}
        mirror.start()
        assert changed.acquire(timeout=60)
        assert {"a": "b"} in mirror.objects.values()
        api.merge(f"{MAPS}/deep", {"data": {"a": "c"}})
        assert changed.acquire(timeout=60)
        assert {"a": "c"} in mirror.objects.values()
    finally:
        api.merge(f"{MAPS}/deep", {"metadata": {"managedFields": [{}]}})
        api.request("DELETE", f"{MAPS}/deep")


@pytest.mark.slow
def test_too_deeply_nested_answers_are_errors(shared_plane):
    api = shared_plane.api()
    endless = b"[" * 50_000
    api._send = lambda *_: (200, endless)
    with pytest.raises(ApiError, match=f"GET {MAPS}: maximum recursion depth"):
        api.request("GET", MAPS)


def post(plane, path, text):
    """What no client of ours can write."""
    authority, certificate, key = Pki(plane.directory / "tls").access(pki.ADMIN)
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    at = urlsplit(plane.url)
    connection = http.client.HTTPSConnection(at.hostname, at.port, timeout=60, context=context)
    connection.request("POST", path, text, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 201
    connection.close()
