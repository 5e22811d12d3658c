import pytest
import structlog

from ccm.manager.serving import Health
from ccm.manager.serving.server import health_metrics


def _health(problem: str | None = None) -> Health:
    health = Health()
    health.add("leaderElection", lambda: None, live=True)
    health.add("cloud-node-controller", lambda: problem)
    return health


def test_all_is_well():
    assert _health().answer("healthz", verbose=False) == (200, "ok")
    assert _health().answer("readyz", verbose=True) == (
        200, "[+]ping ok\n[+]leaderElection ok\n[+]cloud-node-controller ok\nreadyz check passed\n",
    )  # fmt: skip


@pytest.mark.parametrize("verbose", [False, True])
def test_a_failed_check_is_named_without_its_reason(verbose):
    """The whole text is upstream's, byte for byte."""
    status, text = _health("no answer").answer("readyz", verbose=verbose)
    assert status == 500
    assert text == (
        "[+]ping ok\n[+]leaderElection ok\n[-]cloud-node-controller failed: reason withheld\n"
        "readyz check failed\n"
    )


def test_the_log_has_one_line_for_each_change():
    says: list[str | None] = []
    health = Health()
    health.add("node", lambda: says[-1])
    with structlog.testing.capture_logs() as logged:
        for one in (None, "silent for 61 s", "silent for 71 s", "no answer", "no answer", None, None):
            says.append(one)
            for endpoint in ("readyz", "healthz"):
                health.answer(endpoint, verbose=False)
    events = [(line["event"], line["check"], line.get("why")) for line in logged]
    assert events == [
        ("check_failed", "node", "silent for 61 s"),
        ("check_failed", "node", "no answer"),
        ("check_passed_again", "node", None),
    ]


def test_cloud_that_is_away_is_no_reason_to_restart():
    assert _health("no answer").answer("livez", verbose=False) == (200, "ok")


def test_lost_leadership_is_one():
    health = Health()
    health.add("leaderElection", lambda: "not renewed", live=True)
    assert health.answer("livez", verbose=False)[0] == 500


def test_excluded_checks():
    health = _health("no answer")
    status, text = health.answer("readyz", verbose=True, exclude=["cloud-node-controller"])
    assert status == 200
    assert "[+]cloud-node-controller excluded: ok" in text
    assert 'no matches for "x"' in health.answer("livez", verbose=True, exclude=["x"])[1]


def test_one_check_alone():
    health = _health("no answer")
    assert health.answer_one("readyz", "ping") == (200, "ok")
    assert health.answer_one("readyz", "cloud-node-controller") == (500, "no answer\n")
    assert health.answer_one("livez", "cloud-node-controller")[0] == 404


def test_check_that_fails_is_a_failed_check():
    health = Health()
    health.add("broken", lambda: 1 / 0)
    assert "[-]broken failed: reason withheld" in health.answer("healthz", verbose=False)[1]
    assert health.answer_one("healthz", "broken") == (500, "ZeroDivisionError: division by zero\n")


def test_metrics_of_checks():
    health = _health("no answer")
    for _ in range(3):
        health.answer("readyz", verbose=False)
    text = health_metrics(health)
    counted = 'kubernetes_healthchecks_total{name="cloud-node-controller",status="error",type="readyz"} 3'
    assert counted in text
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 3' in text
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1' in text
    assert 'kubernetes_healthcheck{name="cloud-node-controller",type="readyz"} 0' in text
