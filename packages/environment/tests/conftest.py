import os

import pytest

from ccmfs_common.host import port_is_free
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import CONTROL_PLANE
from sandbox.site import Site, cache_directory, open_site
from tests.prepared import missing


@pytest.fixture(scope="session")
def programs():
    built = toolchain.find(cache_directory(os.environ), CONTROL_PLANE)
    if built is None:
        missing("the Kubernetes toolchain is not built: ./dev setup builds it")
    return built


@pytest.fixture
def site(tmp_path) -> Site:
    """A new clone in ``tmp_path``, with the cache in it."""
    return open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}, list, port_is_free)
