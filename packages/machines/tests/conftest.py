import os

import pytest

from hetzner_machines import capacity
from hetzner_machines.disk import Image
from sandbox.kubernetes import machine_image as images
from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory
from tests.machine_site import machine_site
from tests.prepared import missing


@pytest.fixture(scope="session")
def image() -> Image:
    cache = cache_directory(os.environ)
    built = toolchain.find(cache)
    if built is None:
        missing("the toolchain is not built yet: run './dev up' or './dev test' once", for_machines=True)
    return images.ensure(cache, built, print)


@pytest.fixture
def world(tmp_path, image, monkeypatch):
    # These machines run no cluster; with the usual reserve they would not fit beside an environment.
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_MACHINE", 6)
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_CONTROL_PLANE", 0)
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_CLUSTER", 0)
    state = tmp_path / "it's a state, of: signs"  # clones may be in such folders
    state.mkdir()
    with machine_site(state, image) as made:
        yield made


@pytest.fixture
async def backend(world):
    backend = world.backend()
    await backend.start([], {}, world.event)
    async with world.metadata(backend):
        yield backend
    await backend.stop()
