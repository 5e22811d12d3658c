from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from infra import pod_network


def test_the_bridge_has_the_nodes_range_and_keeps_the_addresses_of_pods():
    bridge, portmap = json.loads(pod_network.bridge_configuration("10.244.3.0/24"))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    assert bridge["ipMasq"] is False
    assert portmap["capabilities"] == {"portMappings": True}


def test_only_what_leaves_the_cluster_is_translated():
    rules = pod_network.masquerade_rules("10.244.0.0/16")
    assert "ip saddr 10.244.0.0/16 ip daddr != { 10.244.0.0/16, 224.0.0.0/4 } masquerade" in rules


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed")
def test_nft_takes_the_rules():
    rules = pod_network.masquerade_rules("10.244.0.0/16")
    done = subprocess.run(
        ["nft", "--check", "-f", "-"], input=rules, capture_output=True, text=True, check=False, timeout=60
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("nft may not be used here")
    assert done.returncode == 0, done.stderr


def test_the_script_is_one_that_a_shell_can_read():
    script = pod_network.script("10.244.3.0/24", "10.244.0.0/16")
    subprocess.run(["sh", "-n"], input=script, text=True, check=True, timeout=60)
    assert pod_network.bridge_configuration("10.244.3.0/24") in script
    assert pod_network.masquerade_rules("10.244.0.0/16") in script


def test_nodes_without_a_range_are_told_with_the_reason():
    assert "the node a can't" in (text := pod_network.without_range("a", joined=False))
    assert "it has not joined the cluster" in text
    assert "it has no range for its Pods" in pod_network.without_range("a", joined=True)
