import asyncio
import urllib.parse
from http.server import BaseHTTPRequestHandler

import pytest
from control_servers import PROPS, at_cloud, cloud_server
from fake_programs import programs

from ccm_pulumi.cluster.k3s_installation import K3sServerProvider, identity_of
from ccm_pulumi.lib.errors import RemoteCommandError, VersionError
from tests.http_server import Json, serving

MEMBER = {"node": "c-1", "first": True, "labels": {}}
INSTALLED = "v1.34.4+k3s1"
OLDER, SAME, NEXT, SKIPPED = "v1.33.1+k3s1", INSTALLED, "v1.35.4+k3s1", "v1.36.3+k3s1"


def refused(olds, **news):
    """Why a control server is not made anew with other settings; empty: it is."""
    before = {**PROPS, "version": INSTALLED, "installed": INSTALLED, **olds}
    try:
        result = K3sServerProvider().diff("7", before, {**PROPS, "server_id": "8", **news})
    except VersionError as error:
        return str(error)
    assert result.replaces == ["server_id"]
    return ""


@pytest.mark.parametrize("before", ["member", "leaver"])
@pytest.mark.parametrize("after", ["member", "leaver"])
def test_one_that_comes_back_to_others_leaves_no_minor_version_out_and_goes_not_back(before, after):
    def why(**release):
        return refused({before: MEMBER}, **{after: MEMBER, **release})

    for release in ({"version": SKIPPED}, {"version": "", "channel": "v1.36"}):
        assert "v1.34.4+k3s1 is installed, and k3s can't skip a minor version" in why(**release)
    assert "v1.34.4+k3s1 is installed" in why(version=OLDER)
    assert why(version=NEXT) == why(version=SAME) == why(version="", channel="stable") == ""


@pytest.mark.parametrize(
    ("olds", "news"),
    [
        ({}, {}),
        ({}, {"member": MEMBER}),  # the others come in the same run
        ({"member": MEMBER}, {}),  # it was the last one of several
        ({"leaver": MEMBER}, {}),
    ],
)
def test_the_only_one_begins_another_cluster_with_any_version(olds, news):
    assert refused(olds, version=SKIPPED, **news) == refused(olds, version=OLDER, **news) == ""


@pytest.mark.parametrize("several", [{}, {"member": MEMBER}])
def test_out_of_a_snapshot_k3s_may_go_back_and_leaves_no_minor_version_out(several):
    news = {**several, "restore_from": "before.snapshot"}
    assert "k3s can't skip a minor version" in refused(several, version=SKIPPED, **news)
    assert refused(several, version=OLDER, **news) == refused(several, version=NEXT, **news) == ""


def test_what_is_changed_in_place_does_not_go_back_because_a_snapshot_is_named():
    before = {**PROPS, "version": INSTALLED}
    with pytest.raises(VersionError, match=r"v1\.34\.4\+k3s1 is installed"):
        K3sServerProvider().diff("7", before, {**before, "version": OLDER, "restore_from": "before.snapshot"})


@pytest.fixture
def joining(tmp_path, monkeypatch, host):
    """Makes a control server that finds another one with v1.34.4; whatever else it says to k3s is noted."""
    labels = {"cluster": "shop", "stack": "dev", "role": "control"}
    servers = [cloud_server(number, labels=labels) for number in (7, 8)]

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            named = urllib.parse.urlsplit(self.path).path.rpartition("/")[2]
            if named.isdigit():
                return self.answer(200, {"server": servers[int(named) - 7]})
            return self.answer(200, {"servers": servers, "meta": {"pagination": {"next_page": None}}})

    props = {
        **PROPS,
        "address": "127.0.0.1",
        "host_key": "",
        "private_key": host.private_key,
        "install_url": f"file://{tmp_path}/install.sh",
    }
    log = tmp_path / "log"
    log.touch()
    k3s = f"""case "$*" in
  --version) echo "k3s version {INSTALLED} (abc)" ;;
  *"get --raw /readyz"*) ;;
  *"get nodes"*) echo '{{"items": []}}' ;;
  *) echo "$*" >> {log} ;;
esac"""
    fetching = f"echo fetching >> {log}; exit 1"
    monkeypatch.setenv("PATH", programs(tmp_path, k3s=k3s, ip="echo ' 10.0.0.7/32'", curl=fetching))
    (tmp_path / "db").mkdir()
    (tmp_path / "note").write_text(identity_of({**props, "server_id": "8", "private_ip": "10.0.0.8"}))
    for module in ("etcd_join", "etcd_leave"):
        monkeypatch.setattr(f"ccm_pulumi.cluster.{module}.DATASTORE", tmp_path / "db")
        monkeypatch.setattr(f"ccm_pulumi.cluster.{module}.NOTE", tmp_path / "note")

    with serving(Asked) as port:

        async def create(**changes):
            provider = at_cloud(K3sServerProvider(), f"http://127.0.0.1:{port}/v1")
            try:
                await asyncio.to_thread(provider.create, {**props, **changes})
            finally:
                create.said = log.read_text().split()

        yield create


@pytest.mark.parametrize("whose", [{"member": MEMBER}, {"leaver": MEMBER}, {}])
@pytest.mark.parametrize("release", [{"version": SKIPPED}, {"version": OLDER}, {"channel": "v1.36"}])
async def test_who_would_join_with_a_k3s_that_can_not_be_is_refused_before_anything_is_done(
    joining, whose, release
):
    with pytest.raises(VersionError, match=r"v1\.34\.4\+k3s1"):
        await joining(**whose, **release)
    assert joining.said == []


@pytest.mark.parametrize("release", [{"version": NEXT}, {"channel": "stable"}, {"channel": "v1.34"}])
async def test_who_joins_with_a_k3s_that_can_be_is_installed(joining, release):
    # as far as the installer, which is not to be had
    with pytest.raises(RemoteCommandError, match="installing the k3s server"):
        await joining(member=MEMBER, **release)
    assert "fetching" in joining.said
