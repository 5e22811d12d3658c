import contextlib
from typing import Any

import pytest
from cloud_emulator import OTHER_TOKEN, Emulator, Made
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.models.zones import NAMESERVERS, Value
from hetzner_emulator.resources.zones.routes import MAX_PER_SET
from hetzner_emulator.resources.zones.rules import (
    SetDraft,
    next_serial,
    read_value,
    rrset_name_problem,
    set_problem,
    zone_name_problem,
)
from hetzner_emulator.resources.zones.zonefile import ZoneFileError, read_zonefile, write_zonefile

ZONE = "/zones/example.com"
WWW = f"{ZONE}/rrsets/www/A"
FILE = """$ORIGIN example.com.
$TTL 7200
@ IN SOA hydrogen.ns.hetzner.com. dns.hetzner.com. 2024010100 86400 10800 3600000 3600
@ IN 10800 NS hydrogen.ns.hetzner.com. ; first
@ IN 10800 NS oxygen.ns.hetzner.com.
@ IN 10800 NS helium.ns.hetzner.de.
; a comment on its own line
mail IN A 198.51.100.2
     IN AAAA 2001:db8::2
@ MX 10 mail
"""


async def make_zone(emulator: Emulator, **more: Any) -> Made:
    return await emulator.make("/zones", **{"name": "example.com", "mode": "primary"} | more)


async def values(emulator: Emulator, path: str = WWW) -> list[str]:
    return [record["value"] for record in (await emulator.get(path))["records"]]


async def serial(emulator: Emulator) -> int:
    return int((await values(emulator, f"{ZONE}/rrsets/@/SOA"))[0].split()[2])


def records(*addresses: str) -> dict[str, Any]:
    return {"records": [{"value": address} for address in addresses]}


def www(*addresses: str, **more: Any) -> dict[str, Any]:
    return {"name": "www", "type": "A", **records(*addresses), **more}


async def test_a_new_zone_has_the_default_record_sets(emulator: Emulator):
    zone = await make_zone(emulator, ttl=60)
    assert (zone["record_count"], zone["ttl"], zone["status"]) == (4, 60, "ok")
    nameservers = zone["authoritative_nameservers"]
    assert (nameservers["assigned"], nameservers["delegated"]) == (list(NAMESERVERS), [])
    assert (nameservers["delegation_last_check"], nameservers["delegation_status"]) == (None, "unknown")
    assert zone["registrar"] == "other"
    for path in (zone.path, ZONE):
        assert await emulator.get(path) == zone
    assert [rrset["id"] for rrset in await emulator.get(f"{ZONE}/rrsets")] == ["@/NS", "@/SOA"]
    assert await emulator.get("/zones?name=example.com&mode=primary") == [zone]
    assert await emulator.get("/zones?mode=secondary") == []


@pytest.mark.parametrize(
    ("selector", "found"),
    [("a!=b", ["c"]), ("a notin (b)", ["c"]), ("!a", ["@", "@", "none"]), ("a", ["b", "c"])],
)
async def test_record_sets_without_a_label_do_not_match_another_value(emulator: Emulator, selector, found):
    labels = {"b": {"a": "b"}, "c": {"a": "c"}, "none": {}}
    sets = [{**www("198.51.100.1"), "name": name, "labels": own} for name, own in labels.items()]
    await make_zone(emulator, rrsets=sets)
    listed = await emulator.get(f"{ZONE}/rrsets", params={"label_selector": selector})
    assert [rrset["name"] for rrset in listed] == found


async def test_a_zone_exists_once_in_all_projects(emulator: Emulator):
    await make_zone(emulator)
    body = {"name": "example.com", "mode": "primary"}
    await emulator.expect("uniqueness_error", "POST", "/zones", body, token=OTHER_TOKEN)
    await emulator.expect("not_found", "GET", ZONE, token=OTHER_TOKEN)


async def test_records_are_added_and_removed(emulator: Emulator):
    await make_zone(emulator)
    before = await serial(emulator)
    add, remove = f"{WWW}/actions/add_records", f"{WWW}/actions/remove_records"
    answer = await emulator.ok("POST", add, {**records("198.51.100.1"), "ttl": 300})
    assert answer["action"]["command"] == "add_rrset_records"
    second = {"value": "198.51.100.2", "comment": "b"}
    await emulator.act(WWW, "add_records", records=[second], ttl=300)
    assert await values(emulator) == ["198.51.100.1", "198.51.100.2"]
    assert await serial(emulator) == before + 2
    await emulator.deny("invalid_input", add, **records("198.51.100.3"), ttl=301)
    await emulator.deny("invalid_input", add, **records("198.51.100.1"))
    await emulator.act(WWW, "remove_records", **records("198.51.100.1"))
    assert await values(emulator) == ["198.51.100.2"]
    await emulator.deny("invalid_input", remove, **records("198.51.100.1"))
    await emulator.ok("POST", remove, records("198.51.100.2"))
    await emulator.expect("not_found", "GET", WWW)
    await emulator.deny("not_found", remove, **records("198.51.100.1"))


async def test_a_record_set_is_changed(emulator: Emulator):
    await make_zone(emulator, rrsets=[www("198.51.100.1")])
    await emulator.act(WWW, "set_records", **records("198.51.100.9"))
    comment = [{"value": "198.51.100.9", "comment": "nine"}]
    await emulator.act(WWW, "update_records", records=comment)
    await emulator.act(WWW, "change_ttl", ttl=120)
    rrset = (await emulator.ok("PUT", WWW, {"labels": {"a": "b"}}))["rrset"]
    assert (rrset["records"], rrset["ttl"], rrset["labels"]) == (comment, 120, {"a": "b"})
    assert (await emulator.act(WWW, "change_ttl", ttl=None))["ttl"] is None
    assert await emulator.get(f"{ZONE}/rrsets?type=A&label_selector=a=b")
    await emulator.ok("DELETE", WWW)
    await emulator.expect("not_found", "GET", WWW)


async def test_invalid_record_sets(emulator: Emulator):
    zone = await make_zone(emulator, rrsets=[www("198.51.100.1")])
    one = www("198.51.100.1")
    await emulator.deny("uniqueness_error", f"{ZONE}/rrsets", **one)
    for change in (
        {"type": "CNAME", **records("example.com.")},
        {"name": "other", "records": []},
        {"name": "other", **records("198.51.100.256")},
        {"name": "other", **records("198.51.100.1", "198.51.100.1")},
        {"name": "other", "ttl": 59},
        {"name": "www.example.com"},
        {"name": "WWW"},
        {"name": "other", "type": "TXT", **records("not in quotes")},
        {"name": "other", "type": "LOC"},
    ):
        await emulator.deny("invalid_input", f"{ZONE}/rrsets", **one | change)
    await emulator.expect("invalid_input", "DELETE", f"{ZONE}/rrsets/@/SOA")
    assert (await emulator.get(ZONE))["record_count"] == zone["record_count"]


async def test_protection_holds(emulator: Emulator):
    await make_zone(emulator, rrsets=[www("198.51.100.1")])
    protect = f"{ZONE}/actions/change_protection"
    await emulator.ok("POST", protect, {"delete": True})
    await emulator.expect("protected", "DELETE", ZONE)
    await emulator.act(WWW, "change_protection", change=True)
    for action in ("add_records", "set_records", "remove_records", "update_records", "change_ttl"):
        await emulator.deny("protected", f"{WWW}/actions/{action}", **records("198.51.100.1"))
    await emulator.expect("protected", "DELETE", WWW)
    await emulator.deny("protected", f"{ZONE}/actions/import_zonefile", zonefile=FILE)
    await emulator.ok("POST", protect, {"delete": False})
    await emulator.expect("protected", "DELETE", ZONE)
    await emulator.act(WWW, "change_protection", change=False)
    assert (await emulator.ok("DELETE", ZONE))["action"]["command"] == "delete_zone"
    assert await emulator.get("/zones") == []
    assert emulator.cloud.store.export()["zone_rrset"] == []


async def test_a_zone_file_is_imported_and_exported(emulator: Emulator):
    await make_zone(emulator, rrsets=[www("198.51.100.1")])
    zone = await emulator.act(ZONE, "import_zonefile", zonefile=FILE)
    assert (zone["ttl"], zone["record_count"]) == (7200, 7)
    await emulator.expect("not_found", "GET", WWW)
    servers = await emulator.get(f"{ZONE}/rrsets/@/NS")
    assert (servers["ttl"], servers["records"][0]["comment"]) == (10800, "first")
    assert await values(emulator, f"{ZONE}/rrsets/@/MX") == ["10 mail.example.com."]
    written = await emulator.get(f"{ZONE}/zonefile")
    await emulator.ok("DELETE", ZONE)
    again = await make_zone(emulator, zonefile=written)
    assert (again["ttl"], again["record_count"]) == (7200, 7)
    await emulator.ok("DELETE", ZONE)
    short = await make_zone(emulator, zonefile="$TTL 600\n@ IN A 198.51.100.3\n")
    assert (short["ttl"], short["record_count"]) == (600, 5), "with the SOA and NS records of every zone"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("$ORIGIN example.com.", "$ORIGIN example.org."),
        ("$TTL 7200", "$GENERATE 1-2147483647 h$ A 198.51.100.1"),
        ("$TTL 7200", "$INCLUDE /etc/passwd"),
        ("@ IN SOA", "; @ IN SOA"),
        ("@ IN 10800 NS helium.ns.hetzner.de.", ""),
        ("mail IN A 198.51.100.2", "mail CH A 198.51.100.2"),
        ("198.51.100.2", "not.an.address"),
        ("mail IN A 198.51.100.2", "mail IN CNAME www"),
        ("mail IN A", "mail IN 59 A"),
        ("mail IN A 198.51.100.2", "mail IN LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"),
    ],
)
async def test_a_bad_zone_file_changes_nothing(emulator: Emulator, old: str, new: str):
    await make_zone(emulator)
    text = FILE.replace(old, new)
    assert text != FILE
    await emulator.deny(["zonefile"], f"{ZONE}/actions/import_zonefile", zonefile=text)
    assert (await emulator.get(ZONE))["record_count"] == 4


async def test_the_number_of_records_is_limited(emulator: Emulator):
    await make_zone(emulator)
    for part in range(MAX_PER_SET // 50):
        await emulator.act(WWW, "add_records", **records(*(f"198.51.{part}.{n}" for n in range(50))))
    one_more = records("203.0.113.1")
    await emulator.deny("resource_limit_exceeded", f"{WWW}/actions/add_records", **one_more)


async def test_a_secondary_zone_has_nameservers_and_no_records(emulator: Emulator):
    servers = [{"address": "198.51.100.1", "tsig_key": "c2VjcmV0", "tsig_algorithm": "hmac-sha256"}]
    zone = await make_zone(emulator, mode="secondary", primary_nameservers=servers)
    assert zone["primary_nameservers"] == [{**servers[0], "port": 53}]
    other = [{"address": "2001:db8::1", "port": 5353}]
    changed = await emulator.act(ZONE, "change_primary_nameservers", primary_nameservers=other)
    assert changed["primary_nameservers"] == other
    for wrong in ([], [{"address": "x"}], [{"address": "198.51.100.1", "tsig_key": "%"}]):
        change = f"{ZONE}/actions/change_primary_nameservers"
        await emulator.deny("invalid_input", change, primary_nameservers=wrong)
    for method, path in (("GET", "rrsets"), ("GET", "zonefile"), ("POST", "actions/change_ttl")):
        await emulator.expect("incorrect_zone_mode", method, f"{ZONE}/{path}", {"ttl": 60})
    await emulator.deny(["primary_nameservers"], "/zones", name="a.de", mode="secondary")


def test_names():
    invalid = ("com", "Example.com", "example.com.", "münchen.de", "", "a..b", "-a.de", "a b.de")
    assert [name for name in invalid if not zone_name_problem(name)] == []
    assert not zone_name_problem("xn--mnchen-3ya.de")
    valid = ("@", "*", "*.a", "_dmarc", "a.b", "a-b")
    assert not [name for name in valid if rrset_name_problem(name, "x.de")]
    assert rrset_name_problem("a.*", "x.de")
    assert rrset_name_problem("a" * 64, "x.de")
    assert rrset_name_problem(".".join(["a" * 60] * 4), "example.com")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("A", "198.51.100.1"),
        ("AAAA", "2001:db8::1"),
        ("CAA", '0 issue "letsencrypt.org; validationmethods=dns-01"'),
        ("DS", "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"),
        ("HINFO", '"x86" "Linux"'),
        ("HTTPS", "1 . alpn=h2"),
        ("MX", "10 mail"),
        ("RP", "admin.example.com. text.example.com."),
        ("SRV", "0 5 5060 sip.example.com."),
        ("SVCB", "1 svc.example.com. port=8443"),
        ("TLSA", "3 1 1 d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"),
        ("TXT", '"one" "two; three"'),
    ],
)
def test_every_type_has_values(kind: str, value: str):
    assert read_value(kind, value, "example.com") is not None
    assert read_value(kind, f"{value} ; comment", "example.com") is None
    assert read_value(kind, "\\# 4 c6336401", "example.com") is None


def test_types_with_one_record():
    assert set_problem("www", "CNAME", ["a.", "b."], "example.com")
    assert set_problem("@", "CNAME", ["a."], "example.com")
    assert set_problem("www", "AAAA", ["2001:db8::1", "2001:DB8:0::1"], "example.com")


@given(st.integers(0, 2**32 - 2), st.dates())
def test_serial_numbers_grow(last: int, day):
    number = next_serial(last, f"{day:%Y%m%d}")
    assert number > last
    assert number >= int(f"{day:%Y%m%d}00")


labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
addresses = st.lists(st.ip_addresses(v=4).map(str), min_size=1, max_size=3, unique=True)
comments = st.from_regex(r"([a-z0-9;\"$]{1,5} ?){0,2}", fullmatch=True).map(str.strip)
sets = st.dictionaries(
    labels, st.tuples(st.none() | st.integers(60, 2**31 - 1), addresses, comments), max_size=5
)


@given(sets)
def test_a_written_zone_file_can_be_parsed(content):
    wanted = [
        SetDraft(name, "A", ttl if ttl != 3600 else None, [Value(address, comment) for address in found])
        for name, (ttl, found, comment) in content.items()
    ]
    default, read = read_zonefile(write_zonefile("example.com", 3600, wanted), "example.com", 60)
    assert default == 3600
    assert sorted(read, key=lambda s: s.name) == sorted(wanted, key=lambda s: s.name)


def test_a_comment_with_two_lines_stays_a_comment():
    comment = "first\nevil IN A 192.0.2.66"
    text = write_zonefile("example.com", 3600, [SetDraft("www", "A", None, [Value("192.0.2.1", comment)])])
    (read,) = read_zonefile(text, "example.com", 60)[1]
    assert read.records == [Value("192.0.2.1", "first evil IN A 192.0.2.66")]


async def test_values_are_compared_as_in_dns(emulator: Emulator):
    given = records("2001:db8::1", "2001:db8::2")
    await make_zone(emulator, rrsets=[{"name": "www", "type": "AAAA", **given}])
    path = f"{ZONE}/rrsets/www/AAAA"
    for absent in ("2001:db8::3", "none"):
        await emulator.deny(["records"], f"{path}/actions/remove_records", **records(absent))
    left = await emulator.act(path, "remove_records", **records("2001:DB8:0:0::2"))
    assert left["records"] == [{"value": "2001:db8::1"}]


@given(st.text(max_size=80))
def test_any_text_is_a_zone_file_or_an_error(text: str):
    with contextlib.suppress(ZoneFileError):
        read_zonefile(text, "example.com", 60)
    for kind in ("A", "CAA", "HTTPS", "TLSA", "TXT", "SOA"):
        set_problem("@", kind, [text], "example.com")
