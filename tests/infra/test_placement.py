import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.config.placement import Fallback, Placement, Present, parse_fallbacks
from ccm_pulumi.config.server_spec import Kind, ServerSpec
from ccm_pulumi.preflight.capacity import choose, reasons_for_another
from ccm_pulumi.servers.server_plan import changed, made_of

A, B, C = (Placement("cpx22", place) for place in ("fsn1", "nbg1", "hel1"))
places = st.builds(Placement, st.sampled_from(["cpx22", "cx33"]), st.sampled_from(["fsn1", "nbg1", "hel1"]))
labels = st.one_of(st.just({}), st.builds(lambda place: place.label, places))


def spec(wanted=A, others=(), **more):
    return ServerSpec("worker-1", Kind.WORKER, wanted, alternatives=tuple(others), pool="worker", **more)


def placed(wanted, has_capacity, present):
    return choose([wanted], lambda server: server.alternatives, has_capacity, present)


def chosen(wanted, others, room, present=None):
    there = {} if present is None else {"worker-1": present}
    (server,), unplaceable = placed(spec(wanted, others), lambda place: place in room, there)
    return server.placement, bool(unplaceable)


FALLBACK = Present(B, A.label)


@pytest.mark.parametrize(
    ("wanted", "others", "room", "present", "choice"),
    [
        # of a choice, the second part says whether there was no room
        # a new server gets the first place with room
        (A, [B, C], {A, B, C}, None, (A, False)),
        (A, [B, C], {B, C}, None, (B, False)),
        (A, [B, C], {C}, None, (C, False)),
        (A, [B, C], set(), None, (A, True)),
        (A, [], {B}, None, (A, True)),
        # where it is wanted it needs no room
        (A, [B], set(), Present(A), (A, False)),
        # at a fallback it stays until something else is wanted
        (A, [B], {A, B}, FALLBACK, (B, False)),
        (A, [], set(), FALLBACK, (B, False)),
        (C, [B], {A, B, C}, FALLBACK, (C, False)),
        (B, [], set(), FALLBACK, (B, False)),
        # wanted elsewhere, an existing server goes to no fallback
        (A, [B, C], {B, C}, Present(C), (A, True)),
    ],
)
def test_where_a_server_is_placed(wanted, others, room, present, choice):
    assert chosen(wanted, others, room, present) == choice


@pytest.mark.parametrize(
    ("there", "held", "replacing"),
    [
        ("cx33", {"worker-1": "r"}, []),
        ("cx33", {}, ["serverType"]),
        ("cpx22", {"worker-1": "r"}, ["serverType"]),
    ],
)
def test_a_worker_that_was_resized_by_hand_stays_when_the_setting_follows(there, held, replacing):
    wanted, roles = spec(Placement("cx33", "fsn1")), {"worker-1"}
    servers, _ = placed(wanted, lambda _: True, {"worker-1": Present(Placement(there, "fsn1"))})
    before, after = (made_of(specs, roles, held)["worker-1"] for specs in ([spec(A)], servers))
    assert changed(before, after) == replacing


@pytest.mark.parametrize(
    "other", [{"image": "debian-12"}, {"is_public": False}, {"group": "c-other-1"}, {"group": ""}]
)
def test_a_server_recreated_in_place_needs_capacity_there_or_a_fallback(other):
    there = {"image": "debian-13", "group": "c-worker-1"}
    of_pool = {"image": "debian-13", "cluster": "c", "group": "-worker-1", "group_is_set": True}

    def choice(room, others, **more):
        wanted = spec(A, others, **of_pool)
        present = {"worker-1": Present(A, **{**there, **more})}
        (server,), unplaceable = placed(wanted, lambda place: place in room, present)
        return server.placement, bool(unplaceable)

    assert choice(set(), [B]) == (A, False)
    assert choice({A, B}, [B], **other) == (A, False)
    assert choice({B}, [B], **other) == (B, False)
    assert choice({B}, [], **other) == (A, True)
    at_fallback = {"placement": B, "labels": A.label}

    def from_fallback(room, **more):
        present = {"worker-1": Present(**{**at_fallback, **there, **more})}
        (server,), _ = placed(spec(A, [C], **of_pool), lambda place: place in room, present)
        return server.placement

    assert from_fallback({A, C}) == B
    assert [from_fallback(room, **other) for room in ({A, B, C}, {A, C}, {C}, set())] == [B, A, C, B]


def test_changes_that_do_not_recreate_a_server():
    there = Present(A, image="debian-13", group="c-1")
    assert reasons_for_another(spec(group="-other"), there) == []
    # another NAT server would have another address
    assert reasons_for_another(ServerSpec("nat", Kind.NAT, A, image="debian-12"), there) == []
    # the image is the cloud's no more; the other place is the reason
    assert reasons_for_another(spec(image="debian-13"), Present(A)) == []
    assert reasons_for_another(spec(B, image="debian-12"), there) == []


@given(places, places, labels, st.lists(places), st.sets(places))
def test_no_list_of_fallbacks_moves_a_server_that_exists(wanted, here, marks, others, room):
    present = Present(here, marks)
    assert chosen(wanted, others, room, present) == chosen(wanted, [], room, present)
    assert chosen(wanted, others, room, present)[0] in {wanted, here}


@given(places, st.lists(places), st.sets(places), st.lists(places), st.sets(places))
def test_what_was_chosen_is_kept(wanted, others, room, others_later, room_later):
    (server,), unplaceable = placed(spec(wanted, others), lambda place: place in room, {})
    assert server.placement in room or unplaceable
    made = Present(server.placement, server.labels)
    (again,), _ = placed(spec(wanted, others_later), lambda at: at in room_later, {"worker-1": made})
    assert again.placement == server.placement


@given(st.lists(st.builds(Fallback, st.sampled_from(["", "cx33"]), st.sampled_from(["nbg1", "hel1"]))))
def test_fallbacks_are_read_as_they_are_written(fallbacks):
    written = [
        {key: value for key, value in (("serverType", one.server_type), ("location", one.location)) if value}
        for one in fallbacks[:20]
    ]
    expected = (tuple(fallbacks[:20]), [])
    assert parse_fallbacks(json.dumps(written), "k") == parse_fallbacks(written, "k") == expected


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("nbg1", "k"),
        ("{}", "k"),
        (None, "k"),
        ("[" * 100_000, "k"),
        (json.dumps([{"location": "nbg1"}] * 21), "k"),
        ('["nbg1"]', "k[0]"),
        ("[{}]", "k[0]"),
        ('[{"location": "nbg1"}, {"locaton": "hel1"}]', "k[1].locaton"),
        ('[{"location": 1}]', "k[0].location"),
        ('[{"serverType": "a b"}]', "k[0].serverType"),
        ('[{"serverType": ""}]', "k[0].serverType"),
    ],
    ids=range(11),
)
def test_a_wrong_fallback_is_named(value, key):
    _, problems = parse_fallbacks(value, "k")
    assert [problem.key for problem in problems] == [key]
