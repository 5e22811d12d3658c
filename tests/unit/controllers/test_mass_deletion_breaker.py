import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.controllers.mass_deletion_breaker import MassDeletionBreaker, Verdict

DELETE, WAIT, STOP = Verdict.DELETE, Verdict.WAIT, Verdict.STOP


@pytest.mark.parametrize(
    ("total", "absent", "verdict"),
    [(1, 1, DELETE), (2, 1, DELETE), (2, 2, STOP), (3, 2, DELETE), (3, 3, STOP), (4, 3, WAIT), (6, 3, DELETE),
     (10, 5, DELETE), (10, 6, WAIT), (10, 10, STOP), (5000, 2501, WAIT), (0, 0, DELETE)],
)  # fmt: skip
def test_some_may_go_most_wait_all_stop(total: int, absent: int, verdict: Verdict) -> None:
    assert MassDeletionBreaker().evaluate(total=total, absent=absent, now=0) is verdict


def test_most_are_believed_when_they_stay_away() -> None:
    breaker = MassDeletionBreaker(confirm_after=300)
    assert breaker.evaluate(total=10, absent=8, now=100) is WAIT
    assert breaker.evaluate(total=10, absent=8, now=399) is WAIT
    assert breaker.evaluate(total=10, absent=8, now=400) is DELETE


def test_coming_back_restarts_the_wait() -> None:
    breaker = MassDeletionBreaker(confirm_after=300)
    breaker.evaluate(total=10, absent=8, now=0)
    assert breaker.evaluate(total=10, absent=0, now=200) is DELETE
    assert breaker.evaluate(total=10, absent=8, now=310) is WAIT


def test_all_are_never_believed_unless_the_breaker_is_off() -> None:
    assert MassDeletionBreaker(confirm_after=0).evaluate(total=9, absent=9, now=1e9) is STOP
    assert MassDeletionBreaker(on=False).evaluate(total=9, absent=9, now=0) is DELETE


@given(total=st.integers(2, 10_000), looks=st.lists(st.floats(0, 1e6), min_size=1))
def test_nothing_makes_it_delete_everything(total: int, looks: list[float]) -> None:
    breaker = MassDeletionBreaker()
    assert {breaker.evaluate(total=total, absent=total, now=now) for now in sorted(looks)} == {STOP}
