import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended import pretended_sandbox

from ccmfs_common import host
from sandbox import limits, stack_settings
from sandbox.backend_choice import Choice
from sandbox.commands import up
from sandbox.environment import HOLLOW, MACHINES
from sandbox.errors import MissingRequirement, SandboxError
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.limits import GIB, Facts, Finding, Space, Wanted, findings, refuse
from sandbox.site import open_site

STATE, CACHE = Path("/clone/.sandbox"), Path("/home/.cache")
THREE = Wanted(machines=3, control_planes=1)
ROOMY = Facts(1 << 20, 1 << 20, 0, 1 << 20, 64 * GIB, (Space(STATE, 1, 99 * GIB, 2 * GIB),))
numbers = st.integers(0, 1 << 21)
wanteds = st.builds(Wanted, machines=st.integers(0, 99), control_planes=st.integers(0, 1))


def named(found: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in found}


def test_warnings():
    assert {one.severity for one in findings(ROOMY, THREE)} == {"ok"}
    no_ipv6 = "its kernel has no IPv6"
    for lacking, said in (({"memory": GIB}, "./dev up --workers 0"), ({"ipv6": no_ipv6}, no_ipv6)):
        found = findings(replace(ROOMY, **lacking), THREE)
        (warning,) = [one for one in found if one.severity != "ok"]
        assert warning.what.lower() in lacking
        assert said in warning.found + warning.remedy
        refuse(found)


def test_too_few_free_inotify_instances():
    facts = replace(ROOMY, instances_free=20, instances_allowed=128)
    finding = named(findings(facts, THREE))["inotify instances"]
    assert finding.severity == "stop"
    assert finding.found == f"the environment needs {THREE.instances}, and 20 of 128 are free"
    assert finding.remedy == "sudo sysctl -w fs.inotify.max_user_instances=1024"
    with pytest.raises(MissingRequirement, match=r":\n  inotify instances: .* → sudo sysctl"):
        refuse(findings(facts, THREE))


@given(facts=st.builds(Facts, numbers, numbers, numbers, numbers, numbers), wanted=wanteds)
def test_limits_and_remedies(facts, wanted):
    found = named(findings(facts, wanted))
    instances, watches = found["inotify instances"], found["inotify watches"]
    assert (instances.severity == "stop") == (facts.instances_free < wanted.instances)
    free = max(0, facts.watches_allowed - facts.watches_used)
    assert (watches.severity == "stop") == (free < wanted.watches)
    for finding, used, needed in (
        (instances, facts.instances_allowed, wanted.instances),  # at the worst, all are in use
        (watches, facts.watches_used, wanted.watches),
    ):
        if finding.severity == "stop":
            assert int(re.search(r"=(\d+)$", finding.remedy)[1]) >= used + needed


@given(free=st.integers(0, 20 * GIB), needs=st.lists(st.integers(0, 9 * GIB), min_size=1, max_size=3))
def test_space_on_one_disk_is_added(free, needs):
    spaces = tuple(Space(CACHE / str(number), 7, free, need) for number, need in enumerate(needs))
    disk = named(findings(replace(ROOMY, spaces=spaces), THREE))["disk"]
    assert (disk.severity == "stop") == (sum(needs) > free)


def test_space_on_several_disks():
    spaces = (Space(STATE, 1, GIB, 2 * GIB), Space(CACHE, 2, 99 * GIB, 8 * GIB))
    disks = [finding for finding in findings(replace(ROOMY, spaces=spaces), THREE) if finding.what == "disk"]
    assert [disk.severity for disk in disks] == ["stop", "ok"]
    assert str(STATE) in disks[0].found
    assert disks[0].remedy.startswith("free up 1.0 GiB")


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text(
        "name: p\nruntime: python\nconfig:\n  ccm-from-scratch:workerCount: {type: integer, default: 2}\n"
        "  ccm-from-scratch:pools: {default: []}\n"
        "  ccm-from-scratch:controlCount: {type: integer, default: 1}\n"
        "  ccm-from-scratch:privateNodes: {type: boolean, default: false}\n"
        "  ccm-from-scratch:gateway: {type: object, default: {}}\n"
    )
    return open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, list, host.port_is_free)


def test_the_stacks_number_of_workers(clone):
    assert stack_settings.Settings(clone, "local").workers == 2
    settings = stack_settings.file_of(clone, "local")
    for text, workers in (("5", 5), ("'6'", 6), ("many", 0)):  # as pulumi config set writes it
        settings.write_text(f"config:\n  ccm-from-scratch:workerCount: {text}\n")
        assert stack_settings.Settings(clone, "local").workers == workers


@pytest.mark.parametrize(
    "pools", ["[{name: a, count: 2}, {name: b, count: '1'}]", '\'[{"count": 2},{"count": 1}]\'']
)
def test_workers_of_pools(clone, pools):
    settings = stack_settings.file_of(clone, "local")
    settings.write_text(f"config:\n  ccm-from-scratch:workerCount: 5\n  ccm-from-scratch:pools: {pools}\n")
    assert stack_settings.Settings(clone, "local").workers == 3
    with pytest.raises(SandboxError, match="--workers 4: not allowed, because pools"):
        up.refuse_beside_pools(clone, "local", 4)
    up.refuse_beside_pools(clone, "local", None)


@pytest.mark.parametrize(("said", "controls"), [(3, 3), ("'5'", 5), (2, 1), ("many", 1)])
def test_every_control_server_counts(clone, said, controls):
    assert stack_settings.Settings(clone, "local").controls == 1
    stack_settings.file_of(clone, "local").write_text(f"config:\n  ccm-from-scratch:controlCount: {said}\n")
    assert stack_settings.Settings(clone, "local").controls == controls
    one, several = (limits.wanted(clone, Choice(MACHINES), 6, number) for number in (1, controls))
    assert (one.machines, several.machines) == (6, 6)
    assert several.control_planes == controls


@pytest.mark.parametrize(
    ("said", "servers"),
    [
        ("privateNodes: true", 1),
        ("privateNodes: 'true'", 1),
        ("privateNodes: 'false'", 0),
        ("pools: [{name: a, count: 1, publicIpv4: false}]", 1),
        ("pools: [{name: a, count: 1, publicIpv4: true}]", 0),
        ("gateway: {ssh: 198.51.100.7}\n  ccm-from-scratch:privateNodes: true", 0),
    ],
)
def test_the_nat_server_counts(clone, said, servers):
    assert stack_settings.Settings(clone, "local").nat_servers == 0
    stack_settings.file_of(clone, "local").write_text(f"config:\n  ccm-from-scratch:{said}\n")
    assert stack_settings.Settings(clone, "local").nat_servers == servers
    needed = limits.Wanted(machines=1 + 2 + servers, control_planes=1).instances
    assert limits.look(clone, Choice(MACHINES), 2)[0].found.startswith(f"the environment needs {needed},")


def test_a_new_host_needs_everything(clone):
    machines = limits.wanted(clone, Choice(MACHINES), 3)
    assert (machines.machines, machines.control_planes) == (3, 1)
    hollow = limits.wanted(clone, Choice(HOLLOW), 3)
    assert (hollow.machines, hollow.control_planes) == (0, 1)
    assert machines.cached > hollow.cached == limits.DISK_OF_KUBERNETES
    (clone.cache / "toolchain" / CONTROL_PLANE[0].key).mkdir(parents=True)
    assert limits.wanted(clone, Choice(MACHINES), 3).cached == machines.cached - limits.DISK_OF_KUBERNETES
    with pretended_sandbox(clone, HOLLOW):
        there = limits.wanted(clone, Choice(HOLLOW), 3)
    assert (there.instances, there.cached) == (0, 0)
