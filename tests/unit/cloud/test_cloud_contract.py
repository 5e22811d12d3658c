"""The contract's errors, the fake cloud and the sample: what other clouds' authors start from."""

import asyncio

import pytest

from ccm.cloud import (
    CloudUnavailable,
    Instance,
    NodeView,
    ServicePort,
    ServiceView,
)
from ccm.cloud.sample import open_cloud
from ccm.errors import ConfigurationError
from ccm.testing.fake_cloud import FakeCloud

SERVICE = ServiceView("shop", "web", "uid-1", ports=(ServicePort(80, 30080),))


@pytest.mark.looptime
async def test_the_script_fails_waits_and_calls_back() -> None:
    fake = FakeCloud.complete()
    assert fake.instances
    fake.instances.add(Instance("fake://1", "a"))
    heard: list[str] = []

    async def hear(subject: str) -> None:
        heard.append(subject)

    fake.script.during("get", hear)
    fake.script.delay("get", 5)
    fake.script.fail("get", CloudUnavailable("down"), times=1)
    started = asyncio.get_running_loop().time()
    with pytest.raises(CloudUnavailable):
        await fake.instances.get(NodeView("a"), accepted_age=0)
    assert (await fake.instances.get(NodeView("a"), accepted_age=0)).name == "a"
    assert asyncio.get_running_loop().time() - started == pytest.approx(10)
    assert heard == ["a", "a"]
    assert fake.script.count("get") == 2


def test_the_sample_tells_what_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="'a' is not name=address"):
        open_cloud({"SAMPLE_MACHINES": "a"})
