import pytest
from control_servers import at_cloud

from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.protection import ProtectionProvider


@pytest.mark.parametrize("protected", [True, False, None])
def test_only_a_protected_object_stops_the_run_before_the_first_deletion(cloud, protected):
    body = {"name": "n", "ip_range": "10.0.0.0/8"}
    network = "1" if protected is None else cloud.send("POST", "/networks", body)["network"]["id"]
    if protected:
        cloud.send("POST", f"/networks/{network}/actions/change_protection", {"delete": True})
    provider = at_cloud(ProtectionProvider(), cloud.endpoint)
    props = {"kind": "network", "object_id": network, "switch": "SWITCH"}
    if protected:
        with pytest.raises(InfraError, match=rf"network n \({network}\) was not deleted.*SWITCH"):
            provider.delete("n", props)
    else:
        provider.delete("n", props)
