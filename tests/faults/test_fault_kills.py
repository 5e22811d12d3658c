from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ccm.kube.transport import KubernetesTransport
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from tests.faults.kills import Cluster, kill_everywhere

# On a busy machine the starts of twenty processes take their time.
pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(1800)]


async def test_death_after_every_request() -> None:
    kills = [kill async for kill in kill_everywhere()]
    assert not [kill for kill in kills if kill.problem]
    requests = {kill.request for kill in kills}
    assert {"POST /certificates", "POST /load_balancers"} <= requests
    assert len(kills) >= 8


async def test_death_with_a_real_api_server(kubernetes: Toolchain, tmp_path: Path) -> None:
    async with ControlPlane(kubernetes, tmp_path) as plane:
        transport = await KubernetesTransport.connect(environment={}, kubeconfig=str(plane.kubeconfig))
        await transport.create("/api/v1/namespaces", {"metadata": {"name": "shop"}}, dict)

        @asynccontextmanager
        async def cluster() -> AsyncIterator[Cluster]:
            yield transport, plane.kubeconfig

        try:
            kills = [kill async for kill in kill_everywhere(cluster, at_once=1, method="POST")]
        finally:
            await transport.close()
    assert {kill.request: kill.problem for kill in kills} == {
        "POST /certificates": "",
        "POST /load_balancers": "",
    }
