from dataclasses import dataclass

import pytest
from cloud_emulator import Emulator
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from hetzner_emulator.errors import InvalidInput
from hetzner_emulator.wire.pagination import filter_entries, read_page, sort_entries


@dataclass(frozen=True)
class Entry:
    id: int
    name: str
    finished: float | None = None


entries = st.lists(
    st.builds(Entry, st.integers(1, 99), st.sampled_from("abc"), st.none() | st.floats(0, 9)),
    unique_by=lambda entry: entry.id,
)


@given(st.integers(0, 300), st.integers(1, 120))
def test_all_pages_together_have_every_entry_once(total, per_page):
    items = list(range(total))
    seen, number = [], 1
    while number is not None:
        page = read_page({"page": str(number), "per_page": str(per_page)}, total)
        assert page.per_page == min(per_page, 50)
        assert page.meta()["pagination"]["last_page"] == page.last == max(1, -(-total // page.per_page))
        seen += page.cut(items)
        number = page.next
    assert seen == items


def test_invalid_page_numbers_and_sorts():
    for sort in ("color", "name:up", ":asc"):
        with pytest.raises(InvalidInput):
            sort_entries([], [sort], ("name",))
    for text in ("0", "x", "-1", "٣", "9" * 12, "9" * 5000):  # the last has too many digits for Python
        for name in ("page", "per_page"):
            with pytest.raises(InvalidInput):
                read_page({name: text}, 10)


@given(entries, st.sampled_from(["", ":asc", ":desc"]))
def test_sorting_is_stable_and_falls_back_to_ids(items, direction):
    result = sort_entries(items, [f"name{direction}"], ("id", "name"))
    expected = sorted(sorted(items, key=lambda e: e.id), key=lambda e: e.name, reverse=direction == ":desc")
    assert [e.name for e in result] == [e.name for e in expected]
    assert sorted(result, key=lambda e: e.id) == sorted(items, key=lambda e: e.id)


@given(entries, st.lists(st.sampled_from(["name", "name:desc", "finished", "finished:desc", "id:desc"])))
def test_a_repeated_field_is_ignored(items, sorts):
    fields = [sort.partition(":")[0] for sort in sorts]
    first = [sort for place, sort in enumerate(sorts) if fields.index(fields[place]) == place]
    allowed = ("id", "name", "finished")
    assert sort_entries(items, sorts, allowed) == sort_entries(items, first, allowed)


@given(entries)
def test_entries_without_a_value_come_first(items):
    result = sort_entries(items, ["finished"], ("finished",))
    flags = [entry.finished is not None for entry in result]
    assert flags == sorted(flags)


async def test_listings_have_meta_and_links(emulator: Emulator):
    for number in range(5):
        await emulator.ok("POST", "/placement_groups", {"name": f"g{number}", "type": "spread"})
    query = "per_page=2&page=2&sort=name:desc&label_selector=!x"
    response = await emulator.call("GET", f"/placement_groups?{query}")
    answer = await response.json()
    assert [group["name"] for group in answer["placement_groups"]] == ["g2", "g1"]
    pages = {"page": 2, "previous_page": 1, "next_page": 3, "last_page": 3}
    assert answer["meta"]["pagination"] == {**pages, "per_page": 2, "total_entries": 5}
    link = response.headers["Link"]
    assert 'page=1&per_page=2>; rel="prev"' in link
    assert 'page=3&per_page=2>; rel="next"' in link
    assert "label_selector=%21x" in link
    beyond = await emulator.ok("GET", "/placement_groups?page=9")
    assert beyond["placement_groups"] == []


@given(
    entries, st.lists(st.tuples(st.sampled_from(["name", "other"]), st.sampled_from(["", "None", "a", "b"])))
)
def test_a_filter_matches_one_of_its_values_and_ignores_empty_ones(items, asked):
    def name_of(entry):
        return None if entry.name == "c" else entry.name

    found = filter_entries(items, MultiDict(asked), {"name": name_of})
    wanted = {text for parameter, text in asked if parameter == "name" and text}
    assert found == [entry for entry in items if not wanted or name_of(entry) in wanted]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/certificates", ["name", "type"]),
        ("/firewalls", ["name"]),
        ("/floating_ips", ["name"]),
        ("/images", ["name", "type", "status", "architecture", "bound_to"]),
        ("/isos", ["name", "architecture"]),
        ("/load_balancers", ["name"]),
        ("/load_balancer_types", ["name"]),
        ("/locations", ["name"]),
        ("/networks", ["name"]),
        ("/networks/{network}/members", ["type", "subnet"]),
        ("/placement_groups", ["name", "type"]),
        ("/primary_ips", ["name", "ip"]),
        ("/server_types", ["name"]),
        ("/servers", ["name", "status"]),
        ("/servers/actions", ["id"]),
        ("/ssh_keys", ["name", "fingerprint"]),
        ("/volumes", ["name", "status"]),
        ("/zones", ["name", "mode"]),
        ("/zones/example.com/rrsets", ["name"]),
    ],
)
async def test_every_listing_ignores_empty_filters(emulator: Emulator, path, parameters):
    network = (await emulator.make_network("net", "10.0.0.0/24"))["id"]
    await emulator.make_server(networks=[network])
    await emulator.ok("POST", "/zones", {"name": "example.com", "mode": "primary"})
    path = path.format(network=network)

    async def total(query):
        return (await emulator.ok("GET", path + query))["meta"]["pagination"]["total_entries"]

    everything = await total("")
    for parameter in [*parameters, "label_selector"]:
        assert await total(f"?{parameter}=") == everything
    for parameter in parameters:
        assert await total(f"?{parameter}=None") == 0
