import pytest
from emulated_cloud import TOKEN
from process_world import World
from test_process_nodes_and_routes import initialized
from test_process_services import PLACE, create, gone, ingress, service

from tests.otlp_receiver import attributes, receiving
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def test_a_reconcile_is_a_span_and_its_requests_are_below_it(world: World) -> None:
    with receiving() as received:
        traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        ccm = await world.start(environment=PLACE | traces)
        await world.ready(ccm)
        await world.machine("alpha", 11)
        await world.node("alpha", initialized)
        await create(world, "web")
        await service(world, "web", ingress)
        await world.sky.fault(method="DELETE", path="/load_balancers/*", status=503, times=1)
        await gone(world, "web")
        assert await ccm.stop() == 0
        assert received.services == {"cloud-controller-manager"}
        for queue, key in (("Nodes", "alpha"), ("service", "default/web"), ("Routes", "routes")):
            keys = {attributes(span)["ccm.key"] for span in received.reconciles(queue)}
            assert key in keys, queue

        def requests(queue: str) -> dict[str, set[tuple[int, str]]]:
            found: dict[str, set[tuple[int, str]]] = {}
            for span in (one for parent in received.reconciles(queue) for one in received.below(parent)):
                facts = attributes(span)
                assert span.name == f"{facts['http.request.method']} {facts['url.template']}"
                assert span.start_time_unix_nano <= span.end_time_unix_nano
                pair = facts.get("http.response.status_code", 0), facts.get("error.type", "")
                found.setdefault(span.name, set()).add(pair)
            return found

        # the Node may change meanwhile; then the patch conflicts, and is repeated
        assert (200, "") in requests("Nodes")["PATCH /api/v1/nodes/{name}"]
        assert requests("Routes")["POST /networks/{id}/actions/add_route"] == {(201, "")}
        seen = requests("service")
        assert (201, "") in seen["POST /load_balancers"]
        assert (200, "") in seen["PATCH /api/v1/namespaces/{namespace}/services/{name}/status"]
        refused = [error for status, error in seen["DELETE /load_balancers/{id}"] if status == 503]
        assert refused
        assert all(refused)
        outcomes = {attributes(span)["ccm.outcome"] for span in received.reconciles("service")}
        assert outcomes >= {"done", "failed"}
        assert TOKEN.encode() not in b"".join(received.bodies)


async def test_a_collector_that_is_not_there_does_no_harm(world: World) -> None:
    unreachable = f"http://127.0.0.1:{free_port()}"
    traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": unreachable, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    ccm = await world.start(environment=PLACE | traces)
    await world.ready(ccm)
    await world.machine("beta", 12)
    await world.node("beta", initialized)

    async def log() -> str:
        return ccm.text()

    await world.eventually(log, lambda text: "while exporting spans" in text)
    assert await ccm.stop() == 0
