import pytest

from ccm.cloud.sample import open_cloud
from ccm.errors import ConfigurationError


def test_the_sample_tells_what_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="'a' is not name=address"):
        open_cloud({"SAMPLE_MACHINES": "a"})
