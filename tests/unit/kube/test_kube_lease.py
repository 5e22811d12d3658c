import asyncio
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from virtual_time import VirtualLoop

from ccm.clock import loop_time
from ccm.kube.errors import Conflict, ConnectionFailed, LeaseLost, Unauthorized
from ccm.kube.lease import LeaderElector, LeaseTimes, micro_time
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/cloud-controller-manager"
STOP_TAKES = 4.5  # almost all of the time that work has to end: 15 - 10 seconds
# Until a machine that wakes up notices: at most the pause between two renewals, then the work ends.
LAST_MOMENT = 2.1 + STOP_TAKES

ERRORS = {
    "refused": ConnectionFailed(message="refused"),
    "unauthorized": Unauthorized(401),
    "broken": RuntimeError("a bug"),
}


class Link:
    """One candidate's connection to the server; a test cuts it, or makes it swallow answers or requests."""

    def __init__(self, server: MemoryTransport) -> None:
        self.server = server
        self.mode = "well"
        self.reads = 0
        self.created: dict = {}
        self.awake = asyncio.Event()
        self.awake.set()

    async def _call(self, work):
        try:
            await self.awake.wait()
        except asyncio.CancelledError:
            work.close()
            raise
        if error := ERRORS.get(self.mode):
            work.close()
            raise error
        if self.mode == "hanging":
            work.close()
            await asyncio.Event().wait()
        result = await work
        if self.mode == "deaf":
            await asyncio.Event().wait()
        return result

    async def get(self, path, kind):
        self.reads += 1
        return await self._call(self.server.get(path, kind))

    async def create(self, path, body, kind):
        self.created = body
        return await self._call(self.server.create(path, body, kind))

    async def update(self, path, body, kind):
        return await self._call(self.server.update(path, body, kind))


class Candidate:
    """An elector, its work, and a clock that can jump."""

    def __init__(
        self, server: MemoryTransport, name: str, *, stop_takes: float = 0.0, recorder=None, **more
    ) -> None:
        self.link = Link(server)
        self.jump = 0.0
        self.wall_jump = 0.0
        self.suspended_at: float | None = None
        self.woken_at = -1e9
        self.stop_takes = stop_takes
        self.working = False
        self.started = lambda: None
        self.log: list[tuple[str, float]] = []
        self.elector = LeaderElector(
            self.link,
            identity=name,
            clock=lambda: (loop_time() if self.suspended_at is None else self.suspended_at) + self.jump,
            now=lambda: datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=loop_time() + self.wall_jump),
            random=more.pop("random", lambda: 0.0),
            recorder=recorder,
            **more,
        )
        self.task = asyncio.create_task(self.elector.run(self._work))

    async def _work(self) -> None:
        self.working = True
        self.started()
        self.log.append(("start", loop_time()))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.stop_takes)
            self.working = False
            self.log.append(("end", loop_time()))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def suspend(self) -> None:
        """The machine sleeps: nothing leaves it, and its clock stands still for it."""
        if self.suspended_at is None:
            self.suspended_at = loop_time()
            self.link.awake.clear()

    def wake(self) -> None:
        """It goes on, and its clock has jumped."""
        if self.suspended_at is not None:
            self.suspended_at, self.woken_at = None, loop_time()
            self.link.awake.set()

    @property
    def counts(self) -> bool:
        """Whether it works. Asleep it does not; and no lease can save it a last moment after waking up."""
        return self.working and self.suspended_at is None and loop_time() - self.woken_at > LAST_MOMENT


@pytest.fixture
async def server():
    memory = MemoryTransport()
    yield memory
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def leader(server: MemoryTransport, seconds: float, **more) -> Candidate:
    """The candidate ``one``, after it has been alone for some seconds."""
    first = Candidate(server, "one", **more)
    await asyncio.sleep(seconds)
    return first


async def test_first_candidate_leads_and_writes_a_complete_lease(server):
    first = await leader(server, 5)
    assert first.working
    lease = server.read(LEASE)
    assert lease["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T00:00:00.000000Z",
        "renewTime": "2026-11-21T00:00:04.000000Z",
        "leaseTransitions": 0,
    }
    assert first.elector.is_leader
    assert first.elector.healthy() is None
    created = first.link.created
    assert (created["apiVersion"], created["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert created["metadata"] == {"name": "cloud-controller-manager", "namespace": "kube-system"}


async def test_who_has_not_led_yet_is_healthy_and_leads_nothing(server):
    elector = LeaderElector(server, identity="one", clock=lambda: 1e6)
    assert elector.healthy() is None
    assert elector.is_leader is False
    assert elector.holder == ""


async def test_a_renewal_is_one_request(server):
    first = await leader(server, 60)
    assert first.link.reads == 1, "what it wrote last tells it what there is"


def put_lease(server, holder="gone", **spec):
    """A lease that another candidate holds."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}
    server.put(LEASES, {"metadata": {"name": "cloud-controller-manager"}, "spec": spec})


async def test_a_lease_without_a_spec_is_free(server):
    server.put(LEASES, {"metadata": {"name": "cloud-controller-manager"}})
    first = await leader(server, 1)
    assert first.working
    assert server.read(LEASE)["spec"]["holderIdentity"] == "one"


async def test_candidates_try_at_times_of_their_own(server):
    put_lease(server)
    first = Candidate(server, "one", random=lambda: 1.0)
    await asyncio.sleep(3 * 4.4 - 0.1)
    assert first.link.reads == 3, "2 s and up to 1.2 times as much again"
    await asyncio.sleep(0.2)
    assert first.link.reads == 4


@pytest.mark.parametrize("random", [0.0, 0.5, 1.0])
async def test_a_candidate_takes_the_lease_the_moment_it_may(server, random):
    put_lease(server)
    first = await leader(server, 30, random=lambda: random)
    assert first.log == [("start", pytest.approx(15, abs=0.01))]


async def test_a_candidate_that_may_take_the_lease_and_can_t_write_tries_again_at_the_usual_pace(server):
    put_lease(server)
    first = await leader(server, 14.5)
    first.link.mode, before = "refused", first.link.reads
    await asyncio.sleep(10)
    assert first.link.reads - before == 5


async def test_a_candidate_without_answers_tries_again(server):
    first = Candidate(server, "one")
    first.link.mode = "hanging"
    await asyncio.sleep(4)
    first.link.mode = "well"
    await asyncio.sleep(8)
    assert first.log == [("start", pytest.approx(7, abs=0.1))], "5 s for a request, 2 s until the next"


async def test_silent_leader_is_followed_after_the_duration_and_had_stopped_before(server):
    first = await leader(server, 1)
    second = Candidate(server, "two")
    await asyncio.sleep(9)
    first.link.mode = "refused"
    await asyncio.sleep(30)
    (_, ended), (_, started) = first.log[-1], second.log[0]
    assert ended == pytest.approx(18, abs=0.1)
    assert 23 <= started <= 25.1, "seen written at 8 or 10 s, and 15 s more"
    with pytest.raises(LeaseLost) as error:
        await first.task
    assert (error.value.lease, error.value.identity) == ("kube-system/cloud-controller-manager", "one")
    assert error.value.__cause__ is None
    spec = server.read(LEASE)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
    assert spec["acquireTime"] > "2026-11-21T00:00:23"


@pytest.mark.parametrize("mode", ["hanging", "deaf"])
async def test_leader_without_answers_gives_up_in_time(server, mode):
    first = await leader(server, 5)
    first.link.mode = mode
    await asyncio.sleep(60)
    assert not first.working
    assert first.log[-1][1] <= 4 + 10.1
    with pytest.raises(LeaseLost, match="kube-system/cloud-controller-manager"):
        await first.task


@pytest.mark.parametrize(
    ("mode", "after", "seconds", "times"),
    [
        ("refused", 5, 7, LeaseTimes(15, 10, 2, 15)),
        ("hanging", 5, 7, LeaseTimes(15, 10, 2, 15)),  # one request may hang, there is time for another
        ("refused", 1, 7.5, LeaseTimes(15, 10, 3, 15)),  # the last moment before the deadline is used
    ],
)
async def test_short_interruption_is_survived(server, mode, after, seconds, times):
    assert LeaseTimes() == LeaseTimes(15, 10, 2, 15)
    first = Candidate(server, "one", times=times)
    await asyncio.sleep(after)
    first.link.mode = mode
    await asyncio.sleep(seconds)
    first.link.mode = "well"
    await asyncio.sleep(60)
    assert first.working
    assert first.log == [("start", 0)]


async def test_work_that_does_not_end_when_the_lease_is_lost_is_waited_for_until_others_may_start(server):
    first = await leader(server, 5, stop_takes=1000)
    first.link.mode = "refused"
    with pytest.raises(LeaseLost):
        await first.task
    assert loop_time() == pytest.approx(4 + 15, abs=0.1)


async def test_a_bug_in_the_renewal_ends_the_leadership_and_is_reported(server):
    first = await leader(server, 5)
    first.link.mode = "broken"
    with pytest.raises(LeaseLost) as error:
        await first.task
    assert str(error.value.__cause__) == "a bug"
    assert not first.working


async def test_a_lease_taken_by_another_is_lost_at_once(server):
    first = await leader(server, 5)
    lease = server.read(LEASE)
    lease["spec"]["holderIdentity"] = "two"
    server.put(LEASES, lease)
    await asyncio.sleep(3)
    assert not first.working
    with pytest.raises(LeaseLost):
        await first.task
    assert server.read(LEASE)["spec"]["holderIdentity"] == "two"


async def test_a_lease_touched_by_another_is_kept(server):
    first = await leader(server, 5)
    lease = server.read(LEASE)
    lease["metadata"]["labels"] = {"seen": "yes"}
    lease["spec"]["strategy"] = "OldestEmulationVersion"
    server.put(LEASES, lease)
    await asyncio.sleep(30)
    assert first.working
    lease = server.read(LEASE)
    assert lease["metadata"]["labels"] == {"seen": "yes"}
    assert lease["spec"]["strategy"] == "OldestEmulationVersion"


async def test_deleted_lease_is_made_again(server):
    first = await leader(server, 5)
    server.remove(LEASE)
    await asyncio.sleep(5)
    assert first.working
    assert server.read(LEASE)["spec"]["holderIdentity"] == "one"


async def test_the_written_duration_is_never_too_short(server):
    """A Lease has whole seconds; cut down, it would run out before we give up."""
    times = LeaseTimes(duration=2.4, renew_deadline=2.3, retry_period=0.5)
    elector = LeaderElector(server, identity="one", times=times)
    running = asyncio.create_task(elector.run(asyncio.Event().wait))
    await asyncio.sleep(1)
    assert server.read(LEASE)["spec"]["leaseDurationSeconds"] == 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stopped_leader_gives_the_lease_back_at_once(server):
    first = await leader(server, 5, stop_takes=3)
    second = Candidate(server, "two")
    await asyncio.sleep(5)
    await first.stop()
    ended = first.log[-1][1]
    spec = server.read(LEASE)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert spec["acquireTime"] == spec["renewTime"] == "2026-11-21T00:00:13.000000Z"
    await asyncio.sleep(5)
    assert second.working
    assert ended <= second.log[0][1] <= ended + 2.1


async def test_work_that_does_not_end_keeps_the_lease(server):
    first = await leader(server, 5, stop_takes=1000)
    await first.stop()
    assert loop_time() == pytest.approx(20, abs=0.1)
    assert server.read(LEASE)["spec"]["holderIdentity"] == "one"


async def test_failed_release_is_no_failure(server):
    first = await leader(server, 5)
    first.link.mode = "hanging"
    await first.stop()
    assert first.task.cancelled()
    assert loop_time() <= 11


@pytest.mark.parametrize("error", [None, ValueError("bug")], ids=["finished", "failed"])
async def test_work_that_ends_gives_the_lease_back(server, error):
    elector = LeaderElector(server, identity="one")

    async def work() -> None:
        await asyncio.sleep(30)
        if error:
            raise error

    with pytest.raises(ValueError, match="bug") if error else nullcontext():
        await elector.run(work)
    assert not elector.is_leader
    assert server.read(LEASE)["spec"]["holderIdentity"] == ""


async def test_suspended_leader_does_not_believe_in_its_old_lease(server):
    first = await leader(server, 5)
    first.jump = 3600
    await asyncio.sleep(2.1)
    assert not first.working
    with pytest.raises(LeaseLost):
        await first.task


async def test_race_for_a_free_lease_has_one_winner(server):
    server.latency = 0.5
    candidates = [Candidate(server, str(number)) for number in range(5)]
    await asyncio.sleep(20)
    assert [candidate.working for candidate in candidates].count(True) == 1
    assert sum(len(candidate.log) for candidate in candidates) == 1, "the others never began"


async def test_conflict_while_taking_over_is_no_victory(server):
    put_lease(server, "", leaseTransitions=4)
    server.fail(Conflict(409), verb="update")
    first = await leader(server, 1)
    assert not first.working
    await asyncio.sleep(5)
    assert first.working
    assert server.read(LEASE)["spec"]["leaseTransitions"] == 5


async def test_a_lease_that_changed_hands_as_often_as_can_be_counted_is_taken_all_the_same(server):
    most = 2**31 - 1  # one more isn't an int32, and the API server answers 400
    put_lease(server, "", leaseTransitions=most)
    first = await leader(server, 5)
    assert first.working
    assert server.read(LEASE)["spec"]["leaseTransitions"] == most


class Heard:
    def __init__(self) -> None:
        self.uids: set[str] = set()
        self.messages: list[tuple[str, str]] = []

    def event(self, reference, type, reason, message):  # noqa: A002
        self.uids.add(reference.uid)
        assert (reference.api_version, reference.kind) == ("coordination.k8s.io/v1", "Lease")
        assert (reference.namespace, reference.name) == ("kube-system", "cloud-controller-manager")
        assert type == "Normal"
        self.messages.append((reason, message))


async def test_events(server):
    heard = Heard()
    first = await leader(server, 1, recorder=heard)
    await first.stop()
    assert heard.messages == [
        ("LeaderElection", "one became leader"),
        ("LeaderElection", "one stopped leading"),
    ]
    assert heard.uids == {server.read(LEASE)["metadata"]["uid"]}


class Observed:
    def __init__(self) -> None:
        self.log: list[object] = []

    def leading(self, leading: bool) -> None:
        self.log.append(leading)

    def slow_path(self) -> None:
        self.log.append("slow path")


async def test_the_observer_learns_of_leadership_and_of_renewals_that_had_to_read(server):
    observed = Observed()
    first = await leader(server, 5, observer=observed)
    assert observed.log == [True]
    server.put(LEASES, server.read(LEASE))
    await asyncio.sleep(2)
    assert observed.log == [True, "slow path"]
    await first.stop()
    assert observed.log == [True, "slow path", False]
    assert first.elector.is_leader is False


@pytest.mark.parametrize("began", [0, 1e6])
async def test_health_tells_of_a_leader_that_does_not_renew(server, began):
    first = Candidate(server, "one")
    first.jump = began
    await asyncio.sleep(1)
    assert first.working
    assert first.elector.healthy() is None
    first.jump = began + 34
    assert first.elector.healthy() is None
    first.jump = began + 36
    assert "failed election to renew" in first.elector.healthy()


def test_times_are_written_in_utc_with_six_digits_wherever_it_runs(monkeypatch):
    assert micro_time(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000000Z"
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "XYZ-9")
        time.tzset()
        tokyo = timezone(timedelta(hours=9))
        assert micro_time(datetime(2026, 1, 2, 9, 0, 0, 7, tokyo)) == "2026-01-02T00:00:00.000007Z"
    time.tzset()


WHO = st.integers(0, 1)


class LeaseMachine(RuleBasedStateMachine):
    """Two candidates, connections that fail in all ways: never do both work, and at last one does."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual = VirtualLoop()
        self.server = MemoryTransport()
        self.candidates: list[Candidate] = []
        self.all: list[Candidate] = []
        self.max_per_group = 0
        self.virtual.run(self._start())

    async def _start(self) -> None:
        for number in range(2):
            self.candidates.append(self._new(number))
            await asyncio.sleep(0.3)

    def _new(self, number: int) -> Candidate:
        candidate = Candidate(self.server, f"{number}-{len(self.all)}", stop_takes=STOP_TAKES)
        candidate.jump = number * 1e6
        candidate.started = self._count
        self.all.append(candidate)
        return candidate

    @rule(who=WHO, mode=st.sampled_from(["refused", "hanging", "deaf", "well"]))
    def connection(self, who, mode):
        self.candidates[who].link.mode = mode

    @rule(who=WHO, asleep=st.booleans())
    def sleep_or_wake(self, who, asleep):
        candidate = self.candidates[who]
        self._call(candidate.suspend if asleep else candidate.wake)

    @rule(who=WHO, seconds=st.sampled_from([-1e8, -60.0, 3.0, 1e8]))
    def wall_clock_jumps(self, who, seconds):
        self.candidates[who].wall_jump += seconds

    def _call(self, function):
        async def call() -> None:
            function()

        self.virtual.run(call())

    @rule(who=WHO)
    def replace(self, who):
        """The process ends, in order or because it lost the lease, and a new one starts."""

        async def replace() -> None:
            self.candidates[who].wake()
            await self.candidates[who].stop()
            self.candidates[who] = self._new(who)

        self.virtual.run(replace())

    @rule(who=WHO)
    def kill(self, who):
        """The process is gone at once; what it did not finish does not go on."""

        async def kill() -> None:
            candidate = self.candidates[who]
            candidate.wake()
            candidate.link.mode = "hanging"
            candidate.stop_takes = 0
            candidate.task.cancel()
            await asyncio.sleep(0)
            self.candidates[who] = self._new(who)

        self.virtual.run(kill())

    @rule(seconds=st.sampled_from([0.1, 1, 2, 5, 9, 16, 40]))
    def pass_time(self, seconds):
        self.virtual.advance(seconds)

    def _count(self) -> None:
        """Called whenever work starts, so no overlap is missed however short it is."""
        self.max_per_group = max(self.max_per_group, sum(candidate.counts for candidate in self.all))

    @invariant()
    def one_works_at_most(self):
        self._call(self._count)
        assert self.max_per_group <= 1

    def teardown(self):
        for candidate in self.all:
            candidate.link.mode = "well"
            self._call(candidate.wake)
        # Whoever slept through its lease notices only now, and ends. A Pod would start again.
        self.virtual.advance(20)
        for who in range(2):
            if self.candidates[who].task.done():
                self.replace(who)
        self.virtual.advance(60)
        self.one_works_at_most()
        assert sum(candidate.working for candidate in self.candidates) == 1
        self.virtual.close()
        for candidate in self.all:
            if candidate.task.done() and not candidate.task.cancelled():
                candidate.task.exception()


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(stateful_step_count=20)


async def test_a_refused_client_is_accepted_only_after_permission(server):
    first = Candidate(server, "a")
    first.link.mode = "unauthorized"
    await asyncio.sleep(5)
    assert first.elector.accepted()
    first.link.mode = "refused"
    await asyncio.sleep(5)
    assert first.elector.accepted()
    first.link.mode = "well"
    await asyncio.sleep(5)
    assert first.working
    assert first.elector.accepted() is None
    first.link.mode = "unauthorized"
    await asyncio.sleep(5)
    assert first.elector.accepted()
    await first.stop()
