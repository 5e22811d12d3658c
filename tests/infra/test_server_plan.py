import contextlib
import dataclasses

import pytest
from control_servers import at_cloud
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import read_settings
from pulumi.output import Unknown

from ccm_pulumi.config.placement import Placement
from ccm_pulumi.lib.errors import ConfigurationError, InfraError
from ccm_pulumi.servers.server_plan import (
    InstallationGuardProvider,
    Made,
    Old,
    ServerGuardProvider,
    ServerPlanProvider,
    changed,
    going,
    guard_inputs,
    made_of,
    next_revision,
    refusals,
    revision,
)

CONTROLS = ["control", "control-2", "control-3"]


def made(role: str, image: str = "a", *, rolls: bool = False) -> Made:
    return Made(role, {"image": [image]}, is_control=role in CONTROLS, rolls=rolls)


def olds(*roles: str) -> dict[str, Old]:
    return {role: Old(f"id of {role}", made(role)) for role in roles}


def wanted(*roles: str, image: str = "b", rolls: bool = False) -> dict[str, Made]:
    return {role: made(role, image, rolls=rolls) for role in roles}


@pytest.mark.parametrize(
    ("there", "asked", "lost", "refused"),
    [
        # the last control server, replaced or deleted
        (["control", "worker-1"], wanted("control", "worker-1"), ["control", "worker-1"], ["control"]),
        (["control"], {}, ["control"], ["control"]),
        # workers whose image is another one, and workers that the settings no longer contain
        (["control", "worker-1"], wanted("control", "worker-1"), ["worker-1"], []),
        (["control", "worker-1"], wanted("control"), ["worker-1"], []),
        # nothing has changed that needs another server
        (["control", "worker-1"], wanted("control", "worker-1", image="a"), ["worker-1"], ["worker-1"]),
        (CONTROLS, wanted(*CONTROLS, image="a", rolls=True), ["control-2"], ["control-2"]),
        # one after the other, or all at once
        (CONTROLS, wanted(*CONTROLS, rolls=True), CONTROLS, []),
        (CONTROLS, wanted(*CONTROLS), CONTROLS, CONTROLS),
        (CONTROLS, wanted(*CONTROLS), CONTROLS[1:], CONTROLS[1:]),
        (CONTROLS, wanted(*CONTROLS), CONTROLS[1:2], []),
        # from three to one each leaves by itself
        (CONTROLS, wanted("control", image="a"), CONTROLS[1:], []),
        (CONTROLS, {}, CONTROLS, CONTROLS),
    ],
)
def test_what_must_not_be_deleted(there, asked, lost, refused):
    found = refusals(olds(*there), asked, lost, ())
    assert sorted(found) == [f"id of {role}" for role in sorted(refused)]
    # the IDs that the message names allow it
    assert refusals(olds(*there), asked, lost, found) == {}
    assert refusals(olds(*there), asked, [], ()) == {}


IMAGES = st.sampled_from(["a", "b"])
ROLES = st.sampled_from([*CONTROLS, "worker-1", "worker-2"])


@given(
    st.dictionaries(ROLES, IMAGES, min_size=1), st.dictionaries(ROLES, IMAGES), st.sets(ROLES), st.booleans()
)
def test_plans_that_lose_a_cluster_or_unchanged_servers_are_refused(before, after, others, rolls):
    there = {role: Old(role, made(role, image)) for role, image in before.items()}
    asked = {role: made(role, image, rolls=rolls) for role, image in after.items()}
    lost = (going(there, asked) | others) & there.keys()
    found = refusals(there, asked, lost, ())
    controls = {role for role in there if role in CONTROLS}
    for role in lost & asked.keys():
        assert (role in found) or changed(there[role].made, asked[role])
    if controls and controls <= lost and not (rolls and controls & asked.keys()):
        assert controls <= found.keys()
    assert found.keys() <= lost


def noted(servers: dict[str, Made]) -> dict[str, object]:
    return {"servers": {role: dataclasses.asdict(made) for role, made in servers.items()}}


def test_drift_is_no_change_of_what_a_server_is_made_of(defaults):
    settings = read_settings({**defaults, "ccm-from-scratch:controlCount": "3"})
    one = made_of(settings.servers, ())
    # others have come since, and now another type would need another server
    three = made_of(settings.servers, ["control", "control-2", "control-3", "worker-1", "worker-2"])
    assert (one["control"].in_place, three["control"].in_place) == (["serverType"], [])
    assert all(changed(one[role], three[role]) == [] for role in one)
    # what is noted is the same, so a second run changes nothing
    assert ServerPlanProvider().diff("", noted(one), noted(three)).changes is False
    # a label says that it stands at a fallback; somebody has removed it
    labeled = made_of([server.at(Placement("cx33", "nbg1")) for server in settings.servers], ())
    assert changed(labeled["worker-1"], one["worker-1"]) == []
    elsewhere = made_of(dataclasses.replace(settings, location="nbg1").servers, ())
    assert changed(one["worker-1"], elsewhere["worker-1"]) == ["location"]
    assert revision(one["worker-1"]) != revision(elsewhere["worker-1"])
    # what the settings want now is where it stands
    assert changed(labeled["worker-1"], elsewhere["worker-1"]) == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"image": "debian-12"}, {"control": ["image"], "worker-1": ["image"], "nat": []}),
        ({"cluster_name": "shop"}, {"control": ["name"], "worker-1": ["name"], "nat": ["name"]}),
        ({"control_server_type": "cpx32"}, {"control": [], "worker-1": []}),
        ({"worker_server_type": "cpx32"}, {"control": [], "worker-1": ["serverType"]}),
        ({"nat_server_type": "cpx32"}, {"nat": []}),
        ({"protect": True}, {"control": [], "worker-1": []}),
    ],
)
def test_settings_that_need_another_server(defaults, change, names):
    settings = read_settings(
        {**defaults, "ccm-from-scratch:privateNodes": "true", "ccm-from-scratch:apiEndpoint": "load-balancer"}
    )
    before = made_of(settings.servers, ())
    after = made_of(dataclasses.replace(settings, **change).servers, ())
    assert {role: changed(before[role], after[role]) for role in names} == names


def test_a_type_that_somebody_chose_at_hetzner_becomes_the_programs():
    small, large = (Made("w", {"image": ["a"], "serverType": [name]}) for name in ("cpx22", "cpx32"))
    first, second = revision(small), revision(large)

    def of_first(made, **more):
        return dataclasses.replace(made, held=first, **more)

    in_place = {"in_place": ["serverType"]}  # it has the type already
    assert next_revision(small, of_first(large, **in_place), first) == first
    assert next_revision(small, of_first(large), first) == second
    # then the server goes back to the type that it was made with
    assert next_revision(large, of_first(small), first) not in {first, second}
    # the change to the other type didn't finish, and is repeated or undone
    assert next_revision(large, of_first(large), second) == second
    assert next_revision(large, of_first(small, **in_place), second) == first
    other = dataclasses.replace(large, inputs={**large.inputs, "image": ["b"]})
    assert next_revision(small, of_first(other, **in_place), first) == revision(other)


def test_the_guards_keep_the_only_control_server_until_its_loss_is_allowed(cloud):
    body = {"name": "c-1", "server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    number = str(cloud.send("POST", "/servers", body)["server"]["id"])
    kinds = ServerPlanProvider, ServerGuardProvider, InstallationGuardProvider
    plan, guard, installations = (at_cloud(kind(), cloud.endpoint) for kind in kinds)

    def asked(image, *allowed, **more):
        one = Made("c-1", {"image": [image]}, is_control=True, image=image, server_type="cpx22")
        inputs = {"allowed": allowed, **noted({"control": one}), **more}
        return {"cluster": "guarded", "switch": "ALLOW {}", **inputs}

    ids = guard_inputs({"control": number}, {"control": "abcd"})
    before, other = asked("ubuntu-24.04"), asked("debian-12")
    first = plan.check({}, before).inputs
    assert plan.check(first, before).inputs == first
    assert not guard.diff("", {**before, **ids}, {**before, **ids}).changes
    changed_plan = plan.check(first, other).inputs
    assert changed_plan["revisions"] != first["revisions"]
    assert plan.diff("", first, changed_plan).changes
    for provider, identity in ((guard, number), (installations, f"{number}/abcd")):
        with pytest.raises(InfraError, match=rf'ALLOW \["{identity}"\]'):
            provider.diff("", {**before, **ids}, {**other, **ids})
        plan.check(first, asked("debian-12", identity))
        assert provider.diff("", {**before, **ids}, {**other, **ids}).changes
        plan.check(first, other)
    with pytest.raises(ConfigurationError, match="image of c-1"):
        plan.check(first, asked("99999999"))
    # one that was deleted by hand is created again, but its cluster has more to lose
    cloud.send("DELETE", f"/servers/{number}")
    plan.check(first, before)
    created = guard_inputs({"control": Unknown()}, {"control": Unknown()})
    assert guard.diff("", {**before, **ids}, {**before, **created}).changes
    with pytest.raises(InfraError, match=rf'ALLOW \["{number}/abcd"\]'):
        installations.diff("", {**before, **ids}, {**before, **created})
    for wanted in (asked("ubuntu-24.04", restores=True), asked("ubuntu-24.04", f"{number}/abcd")):
        assert plan.diff("", first, plan.check(first, wanted).inputs).changes is bool(wanted["allowed"])
        assert installations.diff("", {**before, **ids}, {**before, **created}).changes


@pytest.mark.parametrize(
    ("now", "begun", "restores", "refused"),
    [
        # Pulumi asks before it replaces the first one: the others' IDs are those of the last run
        ((None, "2", "3"), None, False, True),
        ((None, "2", "3"), None, True, False),
        # a killed run began an empty cluster on a new server
        (("9", None, None), "new", False, True),
        (("9", None, None), "new", True, True),
        # one joined what the others had, and they were replaced, too
        (("9", None, None), None, False, False),
        (("9",), None, False, False),
    ],
)
def test_an_empty_cluster_in_place_of_a_lost_one_is_refused(cloud, now, begun, restores, refused):
    body = {"name": "c-9", "server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    number = str(cloud.send("POST", "/servers", body)["server"]["id"])
    plan, guard = (
        at_cloud(kind(), cloud.endpoint) for kind in (ServerPlanProvider, InstallationGuardProvider)
    )
    inputs = {"cluster": "lost", "allowed": (), "switch": "ALLOW {}", **noted(wanted(*CONTROLS, image="a"))}
    ids = {role: f"{lost}000000" for role, lost in zip(CONTROLS, "123", strict=True)}
    before = {**inputs, **guard_inputs(ids, dict.fromkeys(CONTROLS, "old"))}
    known = {"9": number, "2": ids["control-2"], "3": ids["control-3"], None: Unknown()}
    after = guard_inputs({role: known[one] for role, one in zip(CONTROLS, now, strict=False)})
    plan.check(inputs, {**inputs, "restores": restores})
    with pytest.raises(InfraError, match="1000000/old") if refused else contextlib.nullcontext():
        guard.diff("", before, {**inputs, **after, "started_empty": begun})
