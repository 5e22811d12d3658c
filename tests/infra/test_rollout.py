import pytest
from control_servers import DYNAMIC, SERVER
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import configured, read_settings

from ccm_pulumi.config.server_spec import CONTROL_ROLES
from ccm_pulumi.servers.rollout import pool_rollout_order, rollout_order

CONTROL = "control"

pools = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just([f"a-{number}" for number in range(1, count + 1)]),
        st.sets(st.sampled_from([f"a-{number}" for number in range(1, count + 1)])),
        st.integers(1, 4),
    )
)


@given(pool=pools, picks=st.lists(st.integers(0, 100)))
def test_never_more_than_may_be_away_are_away(pool, picks):
    """Whatever order the engine takes of those that it may begin or end."""
    members, existing, most = pool
    waits = pool_rollout_order(members, existing, most, [CONTROL])
    over, away = {CONTROL}, set()
    for pick in [*picks, *range(4 * len(members))]:
        ready = [m for m in members if m not in over | away and set(waits.get(m, ())) <= over]
        moves = sorted(away) + ready
        if not moves:
            break
        moved = moves[pick % len(moves)]
        over, away = (over | {moved}, away - {moved}) if moved in away else (over, away | {moved})
        assert len(away & existing) <= most
        # one that is missing may be one that an earlier run took away
        assert not away & existing or set(members) - existing <= over
    else:
        for _ in members:  # no server waits forever
            over |= {m for m in members if set(waits.get(m, ())) <= over}
    assert over | away == {CONTROL, *members}


@pytest.fixture
def servers(defaults):
    """Whom each server waits for, by role."""

    def wait(existing, **changes):
        settings = read_settings(configured(defaults, **changes))
        found = rollout_order(settings, existing)
        return {server.role: set(found.get(server.role, ())) for server in settings.servers}

    return wait


def test_servers_are_registered_in_rollout_order_without_dependencies(declared_with, defaults):
    settings = read_settings({**defaults, "ccm-from-scratch:controlCount": "3"})
    existing = {*CONTROL_ROLES, "worker-1", "worker-2"}
    registered = declared_with(existing, controlCount="3")
    order = [(item.type, item.name) for item in registered]
    for role, others in rollout_order(settings, existing).items():
        over = DYNAMIC + ("ReadyAgain" if role == "worker-2" else "K3sServer")
        assert all(order.index((over, other)) < order.index((SERVER, role)) for other in others)
    servers = [item for item in registered if item.type == SERVER]
    assert not [urn for item in servers for urn in item.options.dependencies if "dynamic/" in urn]


EXISTING = frozenset({"control", "worker-1", "worker-2", "worker-3"})


def test_existing_workers_follow_the_control_server_one_by_one(servers):
    waits = servers(EXISTING, workerCount="4")
    assert waits == {
        "control": set(),
        "worker-4": set(),
        "worker-1": {"control", "worker-4"},
        "worker-2": {"worker-1"},
        "worker-3": {"worker-2"},
    }


def test_as_many_at_once_as_the_settings_say(servers):
    assert servers(EXISTING, workerCount="3", maxUnavailable="2")["worker-3"] == {"worker-1"}
    pools = '[{"name": "worker", "count": 3, "maxUnavailable": 3}]'
    assert servers(EXISTING, pools=pools)["worker-3"] == {"control"}


def test_the_first_run_does_not_wait(servers):
    assert not any(servers(frozenset()).values())


def test_no_wait_if_the_state_of_a_server_is_unknown(servers, tmp_path):
    (tmp_path / "kubeconfig").write_text("K")
    assert not any(servers(EXISTING, kubeconfigPath=str(tmp_path / "kubeconfig")).values())
