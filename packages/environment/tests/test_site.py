import json
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import dev
from sandbox.errors import SandboxError
from sandbox.site import (
    BENCHMARK_RANGE,
    DOCUMENTATION_RANGES,
    PORTS,
    Claim,
    Site,
    choose,
    open_site,
    release_site,
    site_id,
)

SUBNETS = [str(s) for r in DOCUMENTATION_RANGES for s in r.subnets(new_prefix=26)]
ids = st.integers(0, 0xFFFFFF).map("{:06x}".format)


@given(own=ids, taken=st.lists(st.sampled_from(SUBNETS), unique=True, max_size=len(SUBNETS) - 1))
def test_clones_have_different_ranges(own, taken):
    claims = {f"other-{i}": Claim("/", PORTS[i], r) for i, r in enumerate(taken)}
    chosen = choose(own, claims, [], lambda _: True)
    assert chosen.public_range in SUBNETS
    assert chosen.public_range not in taken
    assert chosen.port not in {claim.port for claim in claims.values()}


@given(own=ids, used=st.sampled_from(["203.0.113.0/25", "198.51.100.0/24", "192.0.0.0/8", "203.0.113.7/32"]))
def test_ranges_of_the_host_are_not_used(own, used):
    chosen = choose(own, {}, [IPv4Network(used)], lambda _: True)
    assert not IPv4Network(chosen.public_range).overlaps(IPv4Network(used))


def test_used_ports_are_skipped_and_without_a_free_range_or_port_there_is_no_choice():
    first = choose("000000", {}, [], lambda _: True).port
    assert choose("000000", {}, [], lambda port: port != first).port != first
    with pytest.raises(SandboxError, match="ranges of public addresses"):
        choose("000000", {}, [*DOCUMENTATION_RANGES, BENCHMARK_RANGE], lambda _: True)
    with pytest.raises(SandboxError, match="no free TCP port"):
        choose("000000", {}, [], lambda _: False)


@pytest.fixture
def open_clone(tmp_path):
    def open_clone(name):
        (tmp_path / name).mkdir(exist_ok=True)
        return open_site(tmp_path / name, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, list, lambda _: True)

    return open_clone


def test_two_clones_share_nothing_but_the_cache(open_clone):
    a, b = open_clone("a"), open_clone("b")
    assert open_clone("a") == a
    assert a.cache == b.cache
    assert len({a.id, b.id}) == len({a.port, b.port}) == len({a.token, b.token}) == 2
    assert not a.public_range.overlaps(b.public_range)
    assert len(a.token) == 64
    assert (a.state / "token").stat().st_mode & 0o777 == 0o600
    assert a.state.stat().st_mode & 0o777 == 0o700


def test_claims_of_removed_clones_are_released(open_clone, tmp_path):
    a = open_clone("a")
    release_site(a)
    taken = {open_clone(f"clone-{i}").public_range for i in range(len(SUBNETS))}
    assert a.public_range in taken
    (tmp_path / "clone-0" / ".sandbox").rename(tmp_path / "elsewhere")
    (tmp_path / "clone-0").rmdir()
    assert open_clone("late").public_range in taken


def test_a_lost_claim_is_restored(open_clone, tmp_path):
    register = tmp_path / "cache/ccm-from-scratch/sites.json"
    a = open_clone("a")
    register.unlink()
    assert open_clone("a") == a
    register.write_text(json.dumps({"ffffff": {"root": "/", "port": 1, "public_range": str(a.public_range)}}))
    again = open_clone("a")
    assert not again.public_range.overlaps(a.public_range)
    (a.state / "claim.json").write_text("{")
    register.unlink()
    open_clone("a")


def test_the_id_belongs_to_the_real_path(tmp_path):
    (tmp_path / "clone").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "clone")
    assert site_id(tmp_path / "link") == site_id(tmp_path / "clone") != site_id(tmp_path)


def test_an_unwritable_folder(tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(SandboxError, match=r"can't write its files: .*cache.*XDG_CACHE_HOME"):
        open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, list, lambda _: True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": {}}'])
def test_a_damaged_register_of_clones(open_clone, tmp_path, content):
    register = tmp_path / "cache/ccm-from-scratch/sites.json"
    open_clone("a")
    register.write_text(content)
    with pytest.raises(SandboxError, match=r"sites\.json can't be decoded .*delete the file"):
        open_clone("a")
    register.unlink()
    open_clone("a")


def test_commands_without_addresses_claim_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    registry = tmp_path / "cache/ccm-from-scratch/sites.json"
    for name in ("doctor", "test", "release"):
        assert not isinstance(dev.place(name, tmp_path), Site)
    with pytest.raises(SandboxError, match="of this clone isn't running"):
        dev.place("status", tmp_path)
    assert not registry.exists()
    site = dev.place("serve", tmp_path)
    assert site_id(tmp_path) in registry.read_text()
    assert dev.place("status", tmp_path) == site
    (site.state / "claim.json").unlink()  # as in a clone from before claims were noted there, too
    assert dev.place("status", tmp_path) == site
