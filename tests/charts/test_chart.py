import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccm.manager.flags import FLAGS, parse_flags
from release.tested import RAN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # Helm may have to be built

TREE = Path(__file__).parents[2]
CHART = TREE / "charts" / "ccm-from-scratch"
OFFICIAL = Path(__file__).parent / "official-values.yaml"
NAME = "hcloud-cloud-controller-manager"
IMAGE = "--set=image.repository=registry.example.com/ccm"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
PODMONITOR = "--api-versions=monitoring.coreos.com/v1/PodMonitor"
Render = Callable[..., dict[str, Any]]


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


def container_of(workload: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(workload)["containers"]
    return container


def variables_of(workload: dict[str, Any]) -> dict[str, Any]:
    pairs = [(one["name"], one.get("value", one.get("valueFrom"))) for one in container_of(workload)["env"]]
    assert len(dict(pairs)) == len(pairs), "a variable is there twice"
    return dict(pairs)


def test_helm_has_nothing_against_it(helm, record_property) -> None:
    record_property(f"{RAN}Helm", helm("version", "--template={{.Version}}").stdout.removeprefix("v"))
    found = helm("lint", "--strict", CHART, IMAGE).stdout
    assert "0 chart(s) failed" in found


def test_the_manifests_are_what_it_makes(helm_program) -> None:
    made = runpy.run_path(str(TREE / "charts" / "render.py"))["rendered"](helm_program)
    written = {name: (TREE / "manifests" / name).read_text(encoding="utf-8") for name in made}
    assert written == made, "run: python charts/render.py"


def test_every_value_of_the_official_chart_has_its_effect(render: Render) -> None:
    objects = render(f"--values={OFFICIAL}", PODMONITOR)
    values = yaml.safe_load(OFFICIAL.read_text(encoding="utf-8"))
    workload = objects["Deployment/my-ccm"]
    pod, container = pod_of(workload), container_of(workload)
    labels = {"app.kubernetes.io/name": "my-ccm", "app.kubernetes.io/instance": "ours"}
    assert workload["spec"]["selector"]["matchLabels"] == labels
    assert workload["spec"]["replicas"] == 2
    assert workload["spec"]["strategy"] == values["strategy"]
    assert workload["spec"]["template"]["metadata"] == {
        "labels": labels | values["podLabels"],
        "annotations": values["podAnnotations"],
    }
    assert container["image"] == "registry.example.com/ccm:1.2.3"
    for key in ("nodeSelector", "affinity", "dnsPolicy", "dnsConfig", "priorityClassName"):
        assert pod[key] == values[key]
    assert pod["imagePullSecrets"] == values["image"]["pullSecrets"]
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["tolerations"][-1] == values["additionalTolerations"][0]
    assert pod["volumes"] == values["extraVolumes"]
    assert pod["hostNetwork"] is True
    assert container["volumeMounts"] == values["extraVolumeMounts"]
    assert container["resources"]["requests"] == values["resources"]["requests"]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert {"name": "metrics", "containerPort": 8233} in container["ports"]
    assert objects["ServiceAccount/my-ccm"]["metadata"]["annotations"] == {"account": "3"}
    monitor = objects["PodMonitor/my-ccm"]
    assert monitor["metadata"]["annotations"] == {"of": "ours"}
    assert monitor["metadata"]["labels"] == {"release": "kube-prometheus-stack"}
    assert monitor["spec"]["selector"]["matchLabels"] == labels
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "metrics"}]


def test_flags_and_variables_of_the_official_values_reach_the_ccm(render: Render) -> None:
    workload = render(f"--values={OFFICIAL}")["Deployment/my-ccm"]
    flags = parse_flags(FLAGS, container_of(workload)["args"])
    assert not flags.problems
    assert set(container_of(workload)["args"]) >= {
        "--cloud-provider=hcloud",
        "--allow-untagged-cloud",
        "--route-reconciliation-period=30s",
        "--webhook-secure-port=0",
        "--v=2",
        "--leader-elect=true",
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.42.0.0/16",
    }
    variables = variables_of(workload)
    assert variables["HCLOUD_TOKEN"] == {"secretKeyRef": {"name": "hcloud", "key": "token"}}
    assert variables["HCLOUD_NETWORK"] == {"secretKeyRef": {"name": "hcloud", "key": "network"}}
    assert variables["HCLOUD_LOAD_BALANCERS_LOCATION"] == "fsn1"
    # what the values say of the token counts, and nothing beside it
    assert "HCLOUD_TOKEN_FILE" not in variables


def test_a_text_takes_the_place_of_a_default_that_names_a_secret(render: Render) -> None:
    given = "--set=networking.enabled=true,networking.network.value=net,env.CCM_CLUSTER_ID.value=one"
    variables = variables_of(render(given)[f"Deployment/{NAME}"])
    assert (variables["HCLOUD_NETWORK"], variables["CCM_CLUSTER_ID"]) == ("net", "one")


def test_robot_and_metrics_are_switches(render: Render) -> None:
    on = variables_of(render("--set=robot.enabled=true")[f"Deployment/{NAME}"])
    assert on["ROBOT_ENABLED"] == "true"
    assert on["HCLOUD_METRICS_ENABLED"] == "true"
    off = render("--set=monitoring.enabled=false")[f"Deployment/{NAME}"]
    assert variables_of(off)["HCLOUD_METRICS_ENABLED"] == "false"
    assert "metrics" not in {port["name"] for port in container_of(off)["ports"]}


def test_a_flag_that_is_null_goes_and_numbers_stay_numbers(render: Render) -> None:
    given = "--set=args.leader-elect=null,args.kube-api-burst=1000000,args.profiling=false"
    arguments = container_of(render(given)[f"Deployment/{NAME}"])["args"]
    assert [one for one in arguments if "leader-elect" in one] == []
    assert {"--kube-api-burst=1000000", "--profiling=false"} <= set(arguments)


def test_without_a_token_in_the_values_it_is_a_file_of_the_secret(render: Render) -> None:
    workload = render("--set=tokenSecret=mine")[f"Deployment/{NAME}"]
    assert variables_of(workload)["HCLOUD_TOKEN_FILE"] == "/etc/hcloud/token"
    (volume,) = pod_of(workload)["volumes"]
    assert volume["secret"]["secretName"] == "mine"
    taken_away = render("--set=env.HCLOUD_TOKEN=null")[f"Deployment/{NAME}"]
    assert "HCLOUD_TOKEN_FILE" in variables_of(taken_away)


@pytest.mark.parametrize(
    ("values", "address", "host"),
    [
        ((), "0.0.0.0", None),
        (("--set=networking.enabled=true",), "127.0.0.1", "127.0.0.1"),
        (("--set=networking.enabled=true,args.bind-address=10.0.0.2",), "10.0.0.2", "10.0.0.2"),
        (("--set=networking.enabled=true,args.bind-address=0.0.0.0",), "0.0.0.0", None),
        (("--set=args.bind-address=::",), "::", None),
        (("--set=args.bind-address=::1",), "::1", "::1"),
    ],
)
def test_probes_ask_where_it_listens(render: Render, values, address: str, host: str | None) -> None:
    workload = render(*values)[f"Deployment/{NAME}"]
    container = container_of(workload)
    assert [one for one in container["args"] if "bind-address" in one] == [f"--bind-address={address}"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"].get("host") == host
        assert container[probe]["httpGet"]["port"] == 10258


def test_two_replicas_run_on_two_nodes_and_one_may_go_at_a_time(render: Render) -> None:
    objects = render("--set=replicaCount=2")
    workload = objects[f"Deployment/{NAME}"]
    assert workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    (apart,) = pod_of(workload)["affinity"]["podAntiAffinity"][REQUIRED]
    labels = workload["spec"]["selector"]["matchLabels"]
    assert apart["labelSelector"]["matchLabels"] == labels
    budget = objects[f"PodDisruptionBudget/{NAME}"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["maxUnavailable"] == 1
    assert f"PodDisruptionBudget/{NAME}" not in render()


def test_a_daemon_set_runs_on_control_plane_nodes(render: Render) -> None:
    workload = render("--set=kind=DaemonSet")[f"DaemonSet/{NAME}"]
    assert "replicas" not in workload["spec"]
    assert not {"strategy", "updateStrategy"} & workload["spec"].keys()
    wanted = pod_of(workload)["affinity"]["nodeAffinity"][REQUIRED]
    assert wanted["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == CONTROL_PLANE


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_deployment_requires_control_plane_nodes_unless_a_switch_says_otherwise(
    render: Render, required: bool, replicas: int
) -> None:
    given = [f"--set=replicaCount={replicas}", *([] if required else ["--set=requireControlPlane=false"])]
    affinity = pod_of(render(*given)[f"Deployment/{NAME}"])["affinity"]
    [rule] = affinity["nodeAffinity"]
    assert rule.startswith("required" if required else "preferred")
    assert ("podAntiAffinity" in affinity) is (replicas > 1)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ([], "127.0.0.1:8233"),
        (["--set=networking.enabled=true"], "127.0.0.1:8233"),
        (["--set=monitoring.podMonitor.enabled=true"], ":8233"),
        (["--set=monitoring.serviceMonitor.enabled=true"], ":8233"),
        (["--set=monitoring.address=:8233"], ":8233"),
    ],
)
def test_metrics_without_tls_stay_at_home_unless_a_switch_says_otherwise(
    render: Render, given: list[str], address: str
) -> None:
    assert variables_of(render(*given)[f"Deployment/{NAME}"])["HCLOUD_METRICS_ADDRESS"] == address


def test_a_strategy_is_that_of_whichever_kind_there_is(render: Render) -> None:
    given = "--set=strategy.type=RollingUpdate,strategy.rollingUpdate.maxUnavailable=2"
    wanted = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    assert render(given)[f"Deployment/{NAME}"]["spec"]["strategy"] == wanted
    daemons = render(given, "--set=kind=DaemonSet")[f"DaemonSet/{NAME}"]["spec"]
    assert daemons["updateStrategy"] == wanted
    assert "strategy" not in daemons


@pytest.mark.parametrize(
    "given", ["args.leader-elect=false", "replicaCount=2,args.leader-elect=null", "replicaCount=0"]
)
def test_one_alone_needs_no_lease_and_the_program_asks_for_it_by_itself(render: Render, given: str) -> None:
    assert parse_flags(FLAGS, [])["leader-elect"] is True
    assert f"Deployment/{NAME}" in render(f"--set={given}")


def test_a_switch_leaves_roles_and_their_bindings_out(render: Render) -> None:
    assert not [name for name in render("--set=rbac.create=false") if "Role" in name]


def test_the_role_for_the_lease_follows_the_flags(render: Render) -> None:
    given = "--set=args.leader-elect-resource-name=mine,args.leader-elect-resource-namespace=ours"
    role = render(given)[f"Role/{NAME}"]
    assert role["metadata"]["namespace"] == "ours"
    assert role["rules"][1]["resourceNames"] == ["mine"]


@pytest.mark.parametrize(
    ("address", "ports"),
    [
        (":8233", ["https", "metrics"]),
        ("10.0.0.2:9000", ["https", "metrics"]),
        ("127.0.0.1:8233", ["https"]),
        ("[::1]:8233", ["https"]),
    ],
)
def test_the_policy_lets_in_what_the_pod_offers(render: Render, address: str, ports: list[str]) -> None:
    objects = render("--set=networkPolicy.enabled=true", f"--set=monitoring.address={address}")
    container = container_of(objects[f"Deployment/{NAME}"])
    assert [port["name"] for port in container["ports"]] == ports
    ingress = objects[f"NetworkPolicy/{NAME}"]["spec"]["ingress"]
    assert ingress == [{"ports": [{"port": name} for name in ports]}]


ODD = ("123", "yes", "a: b", "a # b", "a, b]", "two\nlines: here", "- x", "word " * 60 + "end")


@pytest.mark.parametrize("text", ODD)
def test_what_looks_like_yaml_stays_a_text(render: Render, tmp_path: Path, text: str) -> None:
    given = tmp_path / "values.yaml"
    values = {
        "image": {"tag": text},
        "args": {"cluster-name": text, "leader-elect-resource-name": text},
        "env": {"NO": {"value": text}},
        "podLabels": {"label": text},
    }
    given.write_text(yaml.safe_dump(values), encoding="utf-8")
    objects = render(f"--values={given}")
    workload = objects[f"Deployment/{NAME}"]
    assert container_of(workload)["image"] == f"registry.example.com/ccm:{text}"
    assert f"--cluster-name={text}" in container_of(workload)["args"]
    assert variables_of(workload)["NO"] == text
    assert workload["spec"]["template"]["metadata"]["labels"]["label"] == text
    assert objects[f"Role/{NAME}"]["rules"][1]["resourceNames"] == [text]


@pytest.mark.parametrize("name", ["123", "yes", "1e3"])
def test_names_that_look_like_numbers_stay_names(render: Render, name: str) -> None:
    keys = ("nameOverride", "serviceAccount.name", "tokenSecret", "priorityClassName")
    objects = render(*(f"--set-string={key}={name}" for key in keys))
    pod = pod_of(objects[f"Deployment/{name}"])
    assert pod["serviceAccountName"] == pod["priorityClassName"] == name
    assert pod["volumes"][0]["secret"]["secretName"] == name
    subjects = objects[f"ClusterRoleBinding/{name}"]["subjects"]
    assert subjects == [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}]


def test_labels_of_the_pod_leave_those_of_the_selector(render: Render, tmp_path: Path) -> None:
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump({"podLabels": {"app.kubernetes.io/name": "other", "a": "b"}}))
    spec = render(f"--values={given}")[f"Deployment/{NAME}"]["spec"]
    assert spec["template"]["metadata"]["labels"] == {**spec["selector"]["matchLabels"], "a": "b"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("image.repositry=x", ["/image", "repositry"]),
        ("replicas=2", ["replicas"]),
        ("kind=StatefulSet", ["/kind", "DaemonSet"]),
        ("networking.clusterCidr=10.0.0.0/16", ["/networking", "clusterCidr"]),
        ("env.HCLOUD_TOKEN=abc", ["/env/HCLOUD_TOKEN"]),
        ("monitoring.podMonitor.interval=1s", ["/monitoring/podMonitor", "interval"]),
        ("monitoring.podMonitor.spec=null", ["at '/monitoring/podMonitor': missing property 'spec'"]),
        ("monitoring.serviceMonitor.spec=null", ["at '/monitoring/serviceMonitor': missing property 'spec'"]),
        ("args.secure-port=0", ["/args/secure-port"]),
        ("monitoring.address=:0", ["/monitoring/address"]),
        ("tokenSecret=My_Secret", ["/tokenSecret"]),
        ("env=null", ["missing property", "env"]),
        ("image.repository=", ["image.repository", "./dev image"]),
        ("replicaCount=2,args.leader-elect=false", ["args.leader-elect: is false", "replicaCount 1"]),
        ("kind=DaemonSet,args.leader-elect=0", ["args.leader-elect: is false", "kind Deployment"]),
        ("kind=DaemonSet,strategy.type=Recreate", ["strategy.type: a DaemonSet knows"]),
        ("image.repository=quay.example.com/x/hcloud-cloud-controller-manager", ["is the official image"]),
    ],
)
def test_wrong_values_are_refused_by_their_names(helm, given: str, said: list[str]) -> None:
    done = helm("template", "ours", CHART, IMAGE, f"--set={given}", check=False)
    assert done.returncode != 0
    for text in said:
        assert text in done.stderr
