import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.backoff import (
    Backoff,
    EffectBackoff,
    KeyedBuckets,
    RetryLimiter,
    TokenBucket,
    node_limiter,
    slow_limiter,
)


def test_bucket_gives_its_burst_then_its_rate():
    bucket = TokenBucket(10, 3)
    assert [bucket.reserve(0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert bucket.reserve(10) == 0


def test_bucket_ignores_a_clock_that_goes_back():
    bucket = TokenBucket(1, 1)
    assert bucket.take(100)
    assert not bucket.take(50)
    assert not bucket.take(50.5)


@given(st.lists(st.floats(0, 5), max_size=60))
def test_bucket_never_lets_more_pass_than_burst_and_rate(pauses):
    bucket, now, passed = TokenBucket(2, 5), 0.0, 0
    for pause in pauses:
        now += pause
        passed += bucket.take(now)
    assert passed <= 5 + 2 * now + 1e-6


def test_each_key_has_a_bucket_of_its_own():
    buckets = KeyedBuckets(1, 2)
    taken = [buckets.take(key, now) for key, now in (*[("a", 0)] * 3, ("b", 0), ("a", 1), ("a", 1))]
    assert taken == [True, True, False, True, True, False]
    buckets.forget("a")
    buckets.forget("never seen")
    assert [buckets.take("a", 1) for _ in range(3)] == [True, True, False]


def test_attempts_without_effect_wait_one_minute_to_half_an_hour():
    backoff, now, waits = EffectBackoff(), 5.0, []
    assert backoff.wait("a", "label", now, "x") == 0
    for _ in range(7):
        backoff.tried("a", "label", now, "x")
        waits.append(backoff.wait("a", "label", now, "x"))
        now += waits[-1]
    assert waits == [60, 120, 240, 480, 960, 1800, 1800]
    work = [("a", "label", "x"), ("a", "label", "y"), ("a", "taint", "x"), ("b", "label", "x")]
    assert [backoff.wait(uid, what, now - 1, wanted) for uid, what, wanted in work] == [1, 0, 0, 0]
    assert backoff.wait("a", "label", now + 1, "x") == 0
    backoff.tried("a", "label", now, "y")
    assert backoff.wait("a", "label", now, "y") == 60, "another value starts again"
    backoff.tried("b", "label", now)
    backoff.keep({"a"})
    assert [backoff.wait("a", "label", now, "y"), backoff.wait("b", "label", now)] == [60, 0]
    backoff.forget("a", "label")
    backoff.forget("a", "label")
    assert backoff.wait("a", "label", now, "y") == 0


def test_limiter_doubles_by_key_and_forgets():
    limiter = RetryLimiter()
    limiter.forget("never failed")
    assert limiter.failures("a") == 0
    assert [limiter.delay("a", 0) for _ in range(4)] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert limiter.delay("b", 0) == pytest.approx(0.005)
    assert (limiter.failures("a"), limiter.failures("b")) == (4, 1)
    limiter.forget("a")
    assert limiter.delay("a", 0) == pytest.approx(0.005)
    assert (limiter.failures("a"), limiter.failures("b")) == (1, 1)


def test_all_keys_together_are_ten_a_second_beyond_a_hundred():
    limiter = RetryLimiter()
    delays = [limiter.delay(str(number), 0) for number in range(102)]
    assert delays == pytest.approx([0.005] * 100 + [0.1, 0.2])
    assert limiter.delay("later", 60) == pytest.approx(0.005), "by then they have come back"


def test_keys_that_fail_all_the_time_have_no_other_wait_longer_than_the_longest_delay():
    limiter = RetryLimiter(cap=300.0)
    for failure in range(100_000):
        limiter.delay(str(failure % 7), now=0.0)
    assert limiter.delay("other", now=0.0) == 300
    assert limiter.delay("another", now=290.0) == pytest.approx(10, abs=0.2), "the credit has an end, too"


@pytest.mark.parametrize(
    ("limiter", "delays"),
    [(slow_limiter, [5, 10, 20, 40, 80, 160, 300, 300]),
     (node_limiter, [*(0.005 * 2**number for number in range(16)), 300, 300])],
    ids=["services and routes", "nodes"],
)  # fmt: skip
def test_who_fails_waits_up_to_five_minutes(limiter, delays):
    delay = limiter().delay
    found = [delay("a", second * 1000.0) for second in range(len(delays))]
    assert found == pytest.approx(delays)


def test_limiter_never_overflows():
    limiter = RetryLimiter()
    assert max(limiter.delay("a", float(second) * 100) for second in range(3000)) == 1000


def test_backoff_grows_to_its_cap_and_heals():
    assert Backoff().next(0, 0.5) == pytest.approx(1.2), "stretched by up to as much again"
    backoff = Backoff()
    assert [backoff.next(0, 0) for _ in range(8)] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])
    assert backoff.next(100, 0) == 30
    assert backoff.next(220, 0) == 30, "as client-go: more than two minutes"
    assert backoff.next(341, 0) == pytest.approx(0.8)
    assert backoff.next(342, 0) == pytest.approx(1.6), "whatever the clock began with"


def test_after_a_success_the_next_failure_is_the_first():
    backoff = Backoff()
    assert [backoff.next(0, 0) for _ in range(3)] == pytest.approx([0.8, 1.6, 3.2])
    backoff.reset()
    assert [backoff.next(0, 0) for _ in range(2)] == pytest.approx([0.8, 1.6])


@given(st.integers(0, 2000), st.floats(0, 1, exclude_max=True))
def test_backoff_stays_between_its_bounds(failures, random):
    backoff = Backoff()
    for _ in range(failures):
        backoff.next(0, 0)
    assert 0.8 <= backoff.next(0, random) <= 60
