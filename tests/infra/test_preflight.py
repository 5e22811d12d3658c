import json
from collections import Counter

import pytest
from infra_settings import configured

from ccm_pulumi.config.labels import cluster_labels
from ccm_pulumi.config.placement import FALLBACK_FOR
from ccm_pulumi.lib.cloud_api import Cloud, call
from ccm_pulumi.lib.errors import ConfigurationError
from ccm_pulumi.lib.files import ROOT
from ccm_pulumi.preflight.checks import check_everything
from ccm_pulumi.servers.keys import new_key_pair
from hetzner_emulator.testing.cloud import HetznerCloud
from tests.pulumi_lab import Lab

LABELS = cluster_labels("ccm-from-scratch", "local", {})


def placements(checked):
    return {spec.role: str(spec.placement) for spec in checked.servers}


@pytest.fixture
def cloud(hetzner_cloud: HetznerCloud) -> HetznerCloud:
    return hetzner_cloud


@pytest.fixture
def check(cloud, defaults):
    def run(**changes):
        return check_everything(configured(defaults, **changes), "local", cloud.environment)

    return run


@pytest.fixture
def make(cloud):
    """Makes an object in the cloud, as the program or the cluster would have."""

    def create(path, **body):
        return call(Cloud(cloud.endpoint, cloud.token), "POST", path, body)

    return create


@pytest.fixture
def network(make):
    made = make("/networks", name="n", ip_range="10.0.0.0/8")["network"]["id"]
    add_subnet(make, made)
    return made


def add_subnet(make, network, ip_range="10.0.0.0/24"):
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": ip_range}
    make(f"/networks/{network}/actions/add_subnet", **subnet)


BODY = {"server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}


def server(make, network, role, *, labels=(), **more):
    body = {**BODY, "labels": {**LABELS, **dict(labels)}, "networks": [network], **more}
    make("/servers", name=f"ccm-from-scratch-{role}", **body)


def balancer(make, network, name, **labels):
    marks = {"ccm-from-scratch/cluster": "ccm-from-scratch", "hcloud-ccm/service-uid": name, **labels}
    body = {"load_balancer_type": "lb21", "location": "nbg1", "labels": marks}
    make("/load_balancers", name=name, network=network, **body)


def lines(report):
    """First and last words of each line of the table: what it is of, and what it is a month."""
    return [(line.split()[0], *line.split()[-4:-2]) for line in report.splitlines()[3:]]


def test_it_costs_six_calls_and_the_first_time_one_that_changes_nothing(check, cloud):
    check()
    assert Counter(request.operation for request in cloud.requests) == {
        "POST /ssh_keys": 1,
        **{
            f"GET /{what}": 1
            for what in ("locations", "server_types", "images", "pricing", "servers", "load_balancers")
        },
    }


def test_without_anything_all_is_new(check):
    checked = check()
    assert lines(checked.report) == [
        ("control", "19.49", "23.19"),
        ("control", "0.50", "0.60"),
        ("worker", "38.98", "46.39"),
        ("worker", "1.00", "1.19"),
        ("sum", "59.97", "71.36"),
        ("now", "0.00", "0.00"),
        ("difference", "+59.97", "+71.36"),
    ]
    assert checked.cost["monthly"] == {"net": "59.97", "gross": "71.36"}


def test_a_cluster_of_the_same_name_in_another_stack_is_reported_as_foreign(check, make, network):
    server(make, network, "control")
    assert check().warnings == ()
    server(make, network, "worker-1", labels={"stack": "staging"})
    checked = check()
    (warning,) = checked.warnings
    assert "clusterName: 'ccm-from-scratch' is also the cluster name of the stack 'staging'" in warning
    assert "pulumi config set clusterName NAME" in warning
    assert checked.existing == {"control"}
    assert check(clusterName="mine").warnings == ()


def test_what_exists_is_what_it_is_now(check, make, network):
    server(make, network, "control")
    server(make, network, "worker-1", public_net={"enable_ipv4": False})
    make("/servers", name="mine", **BODY)
    balancer(make, network, "a-service")
    before = check(workerCount="1")
    assert lines(before.report)[-4:] == [
        ("Services", "14.99", "17.84"),
        ("sum", "54.97", "65.41"),
        ("now", "54.47", "64.82"),
        ("difference", "+0.50", "+0.60"),
    ]
    # what the cluster makes by itself doesn't change what the stack puts out
    assert before.cost == check(workerCount="1").cost
    assert before.cost["monthly"] == {"net": "39.98", "gross": "47.58"}


def test_load_balancers_of_others_are_others(check, make, network):
    server(make, network, "control")
    other = make("/networks", name="other", ip_range="10.0.0.0/8")["network"]["id"]
    add_subnet(make, other)
    balancer(make, network, "adopted", **{"ccm-from-scratch/adopted": "by-label"})
    balancer(make, network, "of-another", **{"ccm-from-scratch/cluster": "another"})
    balancer(make, other, "of-a-namesake")
    assert "Services" not in check().report


def test_traefiks_load_balancer_is_known_before_it_exists_and_paid_once(check, make, network):
    cost = check(ingress="traefik").cost
    assert cost["monthlyByPool"]["Services"] == {"net": "7.49", "gross": "8.91"}
    server(make, network, "control")
    balancer(make, network, "ccm-from-scratch-ingress")
    checked = check(ingress="traefik")
    assert checked.cost == cost
    assert [line for line in lines(checked.report) if line[0] == "Services"] == [("Services", "7.49", "8.91")]
    assert "Services" not in check(ingress="none").report


def test_costs_include_control_servers_and_a_public_load_balancer_is_reported(check, make, network):
    checked = check(controlCount="3", workerCount="0", apiEndpoint="load-balancer")
    assert checked.cost["monthlyByPool"]["API"] == {"net": "7.49", "gross": "8.91"}
    assert set(placements(checked)) == {"control", "control-2", "control-3"}
    assert "The load balancer of the Kubernetes API is open to the Internet" in checked.report
    body = {"name": "ccm-from-scratch-api", "load_balancer_type": "lb11", "location": "fsn1"}
    make("/load_balancers", labels={**LABELS, "role": "api"}, network=network, **body)
    for role in placements(checked):
        server(make, network, role)
    again = check(controlCount="3", workerCount="0", apiEndpoint="load-balancer")
    assert again.existing == set(placements(checked))
    assert ("difference", "0.00", "0.00") in lines(again.report)
    assert "open to the Internet" not in check(apiEndpoint="private-load-balancer").report


def test_a_type_that_is_sold_out_where_it_is_wanted(check, cloud):
    cloud.settings(sold_out={"cpx22": ["fsn1"]})
    with pytest.raises(ConfigurationError, match=r"controlServerType: 'cpx22'.*nbg1, hel1") as caught:
        check()
    assert len(caught.value.problems) == 2
    checked = check(fallbacks='[{"serverType": "cx33"}, {"location": "hel1"}]')
    assert set(placements(checked).values()) == {"cx33 in fsn1"}
    assert checked.report.endswith("control, worker-1, worker-2: cx33 in fsn1 in place of cpx22 in fsn1")


def test_a_server_that_exists_stays_whatever_is_sold_out_and_whatever_comes_back(check, cloud, make, network):
    server(make, network, "control")
    server(make, network, "worker-1", location="hel1", labels={FALLBACK_FOR: "cpx22.fsn1"})
    cloud.settings(sold_out={"cpx22": ["fsn1"]})
    there = {"control": "cpx22 in fsn1", "worker-1": "cpx22 in hel1"}
    assert placements(check(workerCount="1")) == there
    cloud.settings(sold_out={})
    checked = check(workerCount="2", fallbacks='[{"location": "nbg1"}]')
    assert placements(checked) == {**there, "worker-2": "cpx22 in fsn1"}
    assert checked.servers[1].labels[FALLBACK_FOR] == "cpx22.fsn1"


def test_an_image_that_is_deprecated_is_still_one(check):
    assert check(image="debian-11")
    assert "there are" in problems(check, image="debian-9")["image"]


def test_an_unavailable_fallback_is_reported_and_blocks_only_new_servers(check, make, network):
    gone = {"workerCount": "1", "fallbacks": '[{"serverType": "cx21"}]'}
    server(make, network, "control")
    assert "there are" in problems(check, **gone)["fallbacks[0].serverType"]
    server(make, network, "worker-1")
    (warning,) = check(**gone).warnings
    assert warning.startswith("ccm-from-scratch:fallbacks[0].serverType: 'cx21' is not possible: ")
    # recreated in place
    assert "there are" in problems(check, **gone, image="debian-13")["fallbacks[0].serverType"]
    assert check(**{**gone, "fallbacks": '[{"serverType": "cx33"}]'}).warnings == ()


def test_an_image_may_be_named_by_its_id(check, cloud, make, network):
    server(make, network, "control")
    there = call(Cloud(cloud.endpoint, cloud.token), "GET", "/servers")["servers"]
    cloud.settings(sold_out={"cpx22": ["fsn1"]})
    named = {"workerCount": "0", "image": str(there[0]["image"]["id"])}
    checked = check(**named, fallbacks='[{"location": "nbg1"}]')
    assert placements(checked)["control"] == "cpx22 in fsn1"


@pytest.mark.parametrize("role", ["control", "nat"])
def test_a_type_that_hetzner_gives_no_server_in_place_is_refused(check, make, network, role):
    key = f"{role}ServerType"
    server(make, network, role, server_type="cpx32")
    wanted = PRIVATE if role == "nat" else {}
    said = problems(check, **wanted, **{key: "cpx22"})[key]
    assert said.startswith(
        f"{role} can't change from the type cpx32: the disk has 160 GB and can't shrink to 80 GB"
    )
    assert "the same processor architecture" in problems(check, **wanted, **{key: "cax21"})[key]
    assert ("controlCount" in said) is (role == "control")
    for fits in ("cpx32", "cx53"):
        assert check(**wanted, **{key: fits})
    if role == "control":
        # with another image the server is recreated
        assert check(controlServerType="cpx22", image="debian-13")


def test_a_server_that_loses_its_public_address_or_its_group_needs_room(check, cloud, make, network):
    group = make("/placement_groups", name="ccm-from-scratch-db-1", type="spread")["placement_group"]["id"]
    server(make, network, "control")
    server(make, network, "db-1", placement_group=group)
    cloud.settings(sold_out={"cpx22": ["fsn1"]})

    def asked(**more):
        return {"pools": json.dumps([{"name": "db", "count": 1, **more}])}

    assert check(**asked())
    said = problems(check, **asked(placementGroup=False))
    assert "db would be replaced because of another placement group; " in said["workerServerType"]
    private = {"publicIpv4": False, "placementGroup": False}
    said = problems(check, **asked(**private), natServerType="cx33")
    assert "because of other public addresses and another placement group; " in said["workerServerType"]


@pytest.fixture
def project(tmp_path, cloud):
    """The program with a stack of its own, and Pulumi in front of it."""
    lab = Lab(tmp_path, cloud.environment, name="ccm-from-scratch", stack="local")
    (lab.project / "Pulumi.yaml").unlink()
    for name in ("Pulumi.yaml", "infra"):
        (lab.project / name).symlink_to(ROOT / name)
    lab.ask(["config", "set", "sshAllowedCidrs", "any"])
    return lab


@pytest.mark.slow
def test_a_preview_tells_the_cost_and_all_that_is_wrong(project, cloud):
    said = project.ask(["preview"]).splitlines()
    title = said.index("    Cost of ccm-from-scratch in EUR, gross with 19 % VAT, without traffic:")
    assert said[title + 9].split() == ["difference", "+59.97", "+71.36", "+0.0960", "+0.1146"]
    assert said[title + 9].startswith("      difference")
    assert said.index('        currency     : "EUR"') > title
    cloud.settings(sold_out={"cpx22": ["fsn1"]})
    project.ask(["config", "set", "--path", "fallbacks[0].location", "hel1"])
    assert "server cpx22     hel1" in project.ask(["preview"])
    project.ask(["config", "set", "--path", "controlServerTyp", "cpx32"])
    project.ask(["config", "set", "--path", "fallbacks[0].location", "hell"])
    failed = project.run("preview")
    said = failed.out
    assert failed.status == 1
    assert "the configuration has 4 problems; nothing was created" in said
    assert "controlServerTyp: 'cpx32' is not possible: there is no such key; did you mean" in said
    assert "fallbacks[0].location: 'hell' is not possible: did you mean hel1?" in said
    assert said.count("fsn1 has no capacity for this type now") == 2
    changes = [request for request in cloud.requests if request.method != "GET"]
    assert {(request.operation, request.code) for request in changes} == {("POST /ssh_keys", "invalid_input")}


def problems(check, **changes):
    with pytest.raises(ConfigurationError) as caught:
        check(**changes)
    return {
        problem.key.removeprefix("ccm-from-scratch:"): problem.allowed for problem in caught.value.problems
    }


def test_all_that_keeps_a_network_from_being_imported_is_named(check, make, network):
    said = problems(check, importNetwork=str(network), networkCidr="10.0.0.0/9", networkZone="us-east")
    assert said["networkCidr"] == f"use 10.0.0.0/8, the range of the network {network}"
    assert said["networkZone"] == "use eu-central, the zone of the subnet 10.0.0.0/24"
    said = problems(check, importNetwork=str(network), subnetCidr="10.0.9.0/24")
    assert "Use one of its subnets (10.0.0.0/24)" in said["subnetCidr"]
    assert f"hcloud network add-subnet {network} --type cloud" in said["subnetCidr"]
    assert "no such network" in problems(check, importNetwork="424242")["importNetwork"]
    assert "the ID of a Hetzner network" in problems(check, importNetwork="mine")["importNetwork"]
    server(make, network, "control")
    other = make("/networks", name="o", ip_range="10.0.0.0/8")["network"]["id"]
    said = problems(check, importNetwork=str(other))
    assert f"servers are in the network {network}" in said["importNetwork"]


def test_a_range_of_pods_in_which_somebody_has_something_is_refused(check, make, network):
    imported = {"importNetwork": str(network)}
    make("/servers", name="old-1", networks=[network], **BODY)
    make(f"/networks/{network}/actions/add_route", destination="10.244.0.0/24", gateway="10.0.0.2")
    make(f"/networks/{network}/actions/add_route", destination="0.0.0.0/0", gateway="10.0.0.77")
    said = problems(check, **imported)["clusterCidr"]
    assert "overlaps a route to 10.244.0.0/24 through 10.0.0.2" in said
    assert "0.0.0.0/0" not in said
    assert check(**imported, clusterCidr="10.128.0.0/16")
    add_subnet(make, network, "10.244.128.0/20")
    assert "the subnet 10.244.128.0/20, a route to" in problems(check, **imported)["clusterCidr"]
    # once there are servers of the stack it may be in use
    server(make, network, "control")
    assert check(**imported)


def test_routes_of_lost_servers_do_not_conflict(check, make, network):
    make(f"/networks/{network}/actions/add_route", destination="10.244.0.0/24", gateway="10.0.0.2")
    assert check(importNetwork=str(network))
    # the cloud-controller-manager removes none that is more than its range
    make(f"/networks/{network}/actions/add_route", destination="10.128.0.0/10", gateway="10.0.0.2")
    said = problems(check, importNetwork=str(network), clusterCidr="10.128.0.0/16")["clusterCidr"]
    assert "a route to 10.128.0.0/10 through 10.0.0.2" in said


PRIVATE = {"privateNodes": "true", "apiEndpoint": "load-balancer"}


def test_a_pool_of_the_autoscaler_stands_beside_the_sums(check):
    pools = [{"name": "worker", "count": 2}, {"name": "burst", "min": 1, "max": 3}]
    checked = check(pools=json.dumps(pools), cloudProviderName="hcloud")
    assert checked.cost["monthly"] == check(workerCount="2").cost["monthly"]
    bounds = {"from": {"net": "19.99", "gross": "23.79"}, "to": {"net": "59.97", "gross": "71.36"}}
    assert checked.cost["monthlyByScaledPool"] == {"burst": bounds}
    assert "The sums don't include the pool burst" in checked.report
    assert "1 to 3 x server cpx22 in fsn1 cost 19.99 to 59.97 net" in checked.report


def test_the_nat_server_costs_and_has_the_only_address(check, cloud):
    cost = check(**PRIVATE, natServerType="cpx32").cost
    assert set(cost["monthlyByPool"]) == {"NAT", "API", "control", "worker"}
    assert cost["monthlyOfIpv4"]["net"] == "0.50"
    assert placements(check(**PRIVATE, natServerType="cpx32"))["nat"] == "cpx32 in fsn1"
    cloud.settings(sold_out={"cpx32": ["fsn1"]})
    assert "no capacity" in problems(check, **PRIVATE, natServerType="cpx32")["natServerType"]
    assert "there are" in problems(check, **PRIVATE, natServerType="cpx99")["natServerType"]
    assert check(natServerType="cpx99").cost["monthlyOfIpv4"]["net"] == "1.50"


def test_a_network_with_somebody_elses_default_route_is_refused(check, make, network):
    make(f"/networks/{network}/actions/add_route", destination="0.0.0.0/0", gateway="10.0.0.77")
    assert check(importNetwork=str(network)).settings.import_network
    said = problems(check, **PRIVATE, importNetwork=str(network))["importNetwork"]
    assert "has a route 0.0.0.0/0 to 10.0.0.77" in said
    # once the NAT server is there it is that one's
    server(make, network, "nat")
    assert check(**PRIVATE, importNetwork=str(network)).settings.import_network


def test_a_gateway_of_ones_own_needs_a_route_to_it(check, make, network, tmp_path):
    pair = new_key_pair("")
    (tmp_path / "key").write_text(pair["private_key"])
    own = {"ssh": "198.51.100.7", "hostKey": pair["public_key"].strip(), "keyFile": f"{tmp_path}/key"}
    wanted = {**PRIVATE, "importNetwork": str(network), "gateway": json.dumps(own)}
    assert "hcloud network add-route" in problems(check, **wanted)["gateway"]
    make(f"/networks/{network}/actions/add_route", destination="0.0.0.0/0", gateway="10.0.0.77")
    assert "NAT" not in check(**wanted).cost["monthlyByPool"]
    server(make, network, "nat")
    assert "NAT server" in problems(check, **wanted)["gateway"]


def test_a_change_that_has_no_room_for_old_and_new_servers_is_refused(check, make, network):
    for role in ("control", "old-1", "old-2", "old-3"):
        server(make, network, role)
    pools = {"pools": json.dumps([{"name": "new", "count": 3}])}
    assert check(**pools)
    said = problems(check, **pools, subnetCidr="10.0.0.0/29")
    assert "the 3 old servers" in said["pools"]
    assert "10.0.0.0/29 has addresses for only 5" in said["pools"]


def test_a_token_that_only_reads_is_named_before_anything_begins(cloud, defaults):
    token = "r" * 64
    cloud.admin("PUT", "/tokens", {"token": token, "project": "test", "read_only": True})
    with pytest.raises(ConfigurationError, match=r"hcloud:token.*Read & Write"):
        check_everything(defaults, "local", {**cloud.environment, "HCLOUD_TOKEN": token})


def test_the_cost_is_of_the_type_that_somebody_chose_for_the_apis_load_balancer(check, make):
    more = {"load_balancer_type": "lb21", "location": "fsn1", "labels": {**LABELS, "role": "api"}}
    make("/load_balancers", name="ccm-from-scratch-api", **more)
    report = check(controlCount="3", apiEndpoint="load-balancer").report
    assert "lb21" in report
    assert "lb11" not in report
