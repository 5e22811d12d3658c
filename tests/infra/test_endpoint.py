import pytest
from control_servers import DYNAMIC, PROPS, ROLES, SERVER, of

from ccm_pulumi.cluster.etcd_join import Start
from ccm_pulumi.cluster.k3s_installation import server_script

BALANCER = "hcloud:index/loadBalancer:LoadBalancer"


@pytest.mark.parametrize("endpoint", ["load-balancer", "private-load-balancer"])
def test_a_load_balancer_before_the_control_servers(declared_with, endpoint):
    registered = declared_with(apiEndpoint=endpoint, controlCount="3")
    (balancer,) = of(registered, BALANCER).values()
    assert balancer.inputs["name"] == "ccm-from-scratch-api"
    (place,) = of(registered, "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork").values()
    public = endpoint == "load-balancer"
    assert place.inputs["enablePublicInterface"] is public
    (target,) = of(registered, "hcloud:index/loadBalancerTarget:LoadBalancerTarget").values()
    wanted = dict(part.split("==") for part in target.inputs["labelSelector"].split(","))
    servers = of(registered, SERVER)
    assert {name for name, item in servers.items() if wanted.items() <= item.inputs["labels"].items()} == {
        *ROLES
    }
    assert target.inputs["usePrivateIp"] is True
    (service,) = of(registered, "hcloud:index/loadBalancerService:LoadBalancerService").values()
    assert service.inputs["healthCheck"]["http"]["path"] == "/readyz"
    for item in of(registered, f"{DYNAMIC}K3sServer").values():
        names = item.inputs["names"]
        assert [name.rpartition(".")[0] for name in names] == ["10.0.0", *(["203.0.113"] if public else [])]
    assert ("endpoint" in of(registered, f"{DYNAMIC}Kubeconfig")["kubeconfig"].inputs) is public


def test_without_one_nothing_is_as_it_was_not(declared_with):
    registered = declared_with(apiEndpoint="server", controlCount="1")
    assert not of(registered, BALANCER)
    assert "names" not in of(registered, f"{DYNAMIC}K3sServer")["control"].inputs
    assert "member" not in of(registered, f"{DYNAMIC}K3sServer")["control"].inputs
    assert of(registered, f"{DYNAMIC}Membership")["worker-1"].inputs["others"] == {}
    deployment = of(registered, "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"]
    assert deployment.inputs["spec"]["replicas"] == 1


def test_names_of_the_api_are_in_its_certificate():
    script = server_script({**PROPS, "names": ["10.0.0.9", "203.0.113.9"]}, Start(), cluster=None)
    assert "--tls-san=203.0.113.7 --tls-san=10.0.0.9 --tls-san=203.0.113.9" in script


def test_two_of_the_manager_run_on_two_control_servers(three):
    deployment = of(three(), "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"].inputs["spec"]
    assert deployment["replicas"] == 2
    (rule,) = deployment["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = deployment["template"]["metadata"]["labels"]
    assert rule["labelSelector"]["matchLabels"].items() <= labels.items()
