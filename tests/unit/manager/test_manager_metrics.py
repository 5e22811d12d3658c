import asyncio

import pytest
from prometheus_client import generate_latest

from ccm.kube.http import Call, Transfer
from ccm.manager.metrics import Metrics

pytestmark = pytest.mark.looptime


def _value(metrics: Metrics, sample: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


async def test_queues():
    metrics = Metrics("1.2.3")
    queue = metrics.queue("Nodes")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    assert _value(metrics, "workqueue_depth", name="Nodes") == 1
    assert _value(metrics, "workqueue_adds_total", name="Nodes") == 2
    assert _value(metrics, "workqueue_unfinished_work_seconds", name="Nodes") == pytest.approx(3)
    assert _value(metrics, "workqueue_longest_running_processor_seconds", name="Nodes") == pytest.approx(3)
    queue.done("a")
    queue.add_rate_limited("a")
    assert _value(metrics, "workqueue_retries_total", name="Nodes") == 1
    assert _value(metrics, "workqueue_queue_duration_seconds_sum", name="Nodes") == pytest.approx(2)
    assert _value(metrics, "workqueue_work_duration_seconds_sum", name="Nodes") == pytest.approx(3)
    assert _value(metrics, "workqueue_work_duration_seconds_bucket", name="Nodes", le="1e-08") == 0


async def test_requests_leadership_and_controllers():
    metrics = Metrics("1.2.3")
    metrics.requests.observe(Call("api:6443", "GET", "200", 0.03))
    metrics.requests.observe(Call("api:6443", "GET", "<error>", 9, waited=3, retry=True))
    metrics.requests.observe(Transfer("api:6443", "GET", sent=65, received=2000))
    assert _value(metrics, "rest_client_requests_total", code="200", method="GET", host="api:6443") == 1
    assert _value(metrics, "rest_client_requests_total", code="<error>", method="GET", host="api:6443") == 1
    assert _value(metrics, "rest_client_request_duration_seconds_count", verb="GET", host="api:6443") == 2
    assert _value(metrics, "rest_client_rate_limiter_duration_seconds_sum", verb="GET", host="api:6443") == 3
    host = {"verb": "GET", "host": "api:6443"}
    assert _value(metrics, "rest_client_request_retries_total", code="<error>", **host) == 1
    assert _value(metrics, "rest_client_request_retries_total", code="200", **host) is None
    assert _value(metrics, "rest_client_request_size_bytes_sum", **host) == 65
    assert _value(metrics, "rest_client_request_size_bytes_bucket", le="256.0", **host) == 1
    assert _value(metrics, "rest_client_response_size_bytes_sum", **host) == 2000
    lease = metrics.lease("ccm")
    assert _value(metrics, "leader_election_master_status", name="ccm") == 0
    lease.leading(True)
    lease.slow_path()
    assert _value(metrics, "leader_election_master_status", name="ccm") == 1
    assert _value(metrics, "leader_election_slowpath_total", name="ccm") == 1
    metrics.running("cloud-node", running=True)
    labels = {"name": "cloud-node", "manager": "cloud-controller-manager"}
    assert _value(metrics, "running_managed_controllers", **labels) == 1
    metrics.running("cloud-node", running=False)
    assert _value(metrics, "running_managed_controllers", **labels) == 0


async def test_text_has_the_process_and_the_version():
    text = generate_latest(Metrics("1.2.3").registry).decode()
    assert "process_resident_memory_bytes" in text
    assert 'kubernetes_build_info{git_version="v1.2.3"' in text
    assert "_created" not in text
