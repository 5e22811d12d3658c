"""The contract's errors, the fake cloud and the sample: what other clouds' authors start from."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

import ccm.cloud.sample
from ccm.cloud import (
    CloudError,
    CloudUnavailable,
    Instance,
    InstanceNotFound,
    NodeView,
    RetryAfter,
    ServicePort,
    ServiceView,
)
from ccm.cloud.sample import open_cloud
from ccm.errors import ConfigurationError
from ccm.kube.reconciler import retry_after
from ccm.testing.fake_cloud import FakeCloud, FakeInstances

SERVICE = ServiceView("shop", "web", "uid-1", ports=(ServicePort(80, 30080),))


def test_a_wrapped_wish_for_a_delay_is_found() -> None:
    error = CloudError("ensuring failed")
    error.__cause__ = RetryAfter("busy", 42)
    assert retry_after(error) == 42
    assert retry_after(CloudUnavailable("down")) is None


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


def test_the_sample_is_short() -> None:
    assert len(Path(inspect.getfile(ccm.cloud.sample)).read_text().splitlines()) < 100


async def test_the_sample_runs() -> None:
    cloud = open_cloud({"SAMPLE_MACHINES": "a=192.0.2.1,b=192.0.2.2"})
    await cloud.start()
    assert (await cloud.instances.get(NodeView("a"), accepted_age=0)).provider_id == "sample://a"
    answers = await cloud.instances.list([NodeView("b"), NodeView("c")], accepted_age=0)
    assert isinstance(answers["b"], Instance)
    assert isinstance(answers["c"], InstanceNotFound)
    assert cloud.healthy() is None
    await cloud.close()


def test_the_sample_tells_what_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="'a' is not name=address"):
        open_cloud({"SAMPLE_MACHINES": "a"})


def test_a_fake_with_another_scheme() -> None:
    assert FakeInstances(FakeCloud().script, scheme="my://").owns("my://1")
