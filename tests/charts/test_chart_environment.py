import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_chart import CHART, IMAGE, NAME, PODMONITOR, TREE, Render, container_of, variables_of

from ccm.hetzner.cloud import open_cloud
from ccm.manager.flags import FLAGS, parse_flags

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # Helm may have to be built

ON = {
    "networking": {"enabled": True},
    "robot": {"enabled": True},
    "monitoring": {"address": "127.0.0.1:8233"},
}
OFF = {"monitoring": {"enabled": False}}
# What the templates set by themselves, and the value that it stands for.
OWN = {
    "HCLOUD_TOKEN_FILE": "",
    "HCLOUD_NETWORK": "networking.network",
    "ROBOT_ENABLED": "robot.enabled",
    "HCLOUD_METRICS_ENABLED": "monitoring.enabled",
    "HCLOUD_METRICS_ADDRESS": "monitoring.address",
}


@pytest.fixture
def values(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Writes a file of values; returns the option that names it."""

    def written(content: dict[str, Any]) -> str:
        path = tmp_path / "values.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return f"--values={path}"

    return written


def test_these_are_the_variables_that_the_templates_set() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir()]
    found = [re.findall(r"\$own \"(\w+)\"|- name: ([A-Z_]+)$", text, re.MULTILINE) for text in texts]
    assert {one or other for names in found for one, other in names} == OWN.keys()


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("switches", [ON, OFF], ids=["on", "off"])
@pytest.mark.parametrize(
    "said", [{"value": "mine:1"}, {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
)
def test_each_is_there_once_or_the_value_that_is_meant_is_named(helm, values, name, switches, said) -> None:
    given = values({**switches, "env": {name: said}})
    done = helm("template", "ours", CHART, IMAGE, given, check=False)
    if done.returncode:
        assert f"env.{name}: " in done.stderr
        assert OWN[name] in done.stderr
    else:
        (workload,) = (one for one in yaml.safe_load_all(done.stdout) if one["kind"] == "Deployment")
        assert variables_of(workload)[name] == said.get("value", said.get("valueFrom"))


@pytest.mark.parametrize("switches", [ON, OFF], ids=["on", "off"])
def test_env_may_say_the_same_once_more(render: Render, values, switches) -> None:
    workload = render(values(switches))[f"Deployment/{NAME}"]
    own = [one for one in container_of(workload)["env"] if one["name"] in OWN]
    more = {one["name"]: {key: one[key] for key in ("value", "valueFrom") if key in one} for one in own}
    again = render(values({**switches, "env": more}))[f"Deployment/{NAME}"]
    assert variables_of(again) == variables_of(workload)


@pytest.mark.parametrize(
    ("said", "port"),
    [("127.0.0.1:8233", None), ("[::1]:8233", None), (":9000", 9000), (" :9000 ", 9000), ("", None)],
)
def test_an_address_in_env_as_for_the_official_chart_counts(render: Render, values, said, port) -> None:
    given = {"networking": {"enabled": True}, "env": {"HCLOUD_METRICS_ADDRESS": {"value": said}}}
    workload = render(values(given))[f"Deployment/{NAME}"]
    assert variables_of(workload)["HCLOUD_METRICS_ADDRESS"] == (said.strip() or "127.0.0.1:8233")
    ports = {one["name"]: one["containerPort"] for one in container_of(workload)["ports"]}
    assert ports.get("metrics") == port


@pytest.mark.parametrize("provider", ["hcloud", "ccm-from-scratch"])
@pytest.mark.parametrize("switch", ["true", "false"])
def test_the_program_serves_metrics_where_the_pod_offers_them(render: Render, provider, switch) -> None:
    given = f"--set=args.cloud-provider={provider},monitoring.enabled={switch},monitoring.address=:8233"
    workload = render(given)[f"Deployment/{NAME}"]
    ports = {one["containerPort"] for one in container_of(workload)["ports"]} - {10258}
    assert wanted_ports(workload) == ports == ({8233} if switch == "true" else set())


def test_the_program_serves_metrics_of_the_manifest_to_its_node() -> None:
    workload = yaml.safe_load((TREE / "manifests" / "deployment.yaml").read_text(encoding="utf-8"))
    assert wanted_ports(workload) == {8233}
    assert variables_of(workload)["HCLOUD_METRICS_ADDRESS"] == "127.0.0.1:8233"


def wanted_ports(workload: dict[str, Any]) -> set[int]:
    """Where the program would serve metrics without TLS with a Pod's flags and variables."""
    flags = parse_flags(FLAGS, container_of(workload)["args"])
    texts = {name: said for name, said in variables_of(workload).items() if isinstance(said, str)}
    environment = {**texts, "HCLOUD_TOKEN_FILE": "", "HCLOUD_TOKEN": "t" * 64}
    server = open_cloud(environment, provider=flags["cloud-provider"])._metrics_server
    return {server._wanted_port} if server else set()


@pytest.mark.parametrize("word", ["false", "False", "0"])
def test_metrics_that_env_switches_off_are_neither_offered_nor_monitored(
    render: Render, values, word
) -> None:
    given = {
        "env": {"HCLOUD_METRICS_ENABLED": {"value": word}},
        "monitoring": {"podMonitor": {"enabled": True}},
    }
    objects = render(values(given), PODMONITOR)
    workload = objects[f"Deployment/{NAME}"]
    assert variables_of(workload)["HCLOUD_METRICS_ENABLED"] == "false"
    assert [one["name"] for one in container_of(workload)["ports"]] == ["https"]
    assert f"PodMonitor/{NAME}" not in objects


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"env": {"HCLOUD_METRICS_ADDRESS": {"value": ":8233"}}, **ON},
            "monitoring.address says something else",
        ),
        (
            {"env": {"HCLOUD_METRICS_ENABLED": {"value": "true"}}, **OFF},
            "monitoring.enabled says something else",
        ),
        ({"env": {"ROBOT_ENABLED": {"value": "false"}}, **ON}, "robot.enabled says"),
        (
            {"env": {"HCLOUD_METRICS_ADDRESS": {"value": "8233"}}},
            'env.HCLOUD_METRICS_ADDRESS: "8233" is no text like :8233 or 127.0.0.1:8233',
        ),
        (
            {"networking": {"enabled": True, "network": None}},
            "networking.network: is nothing, but networking.enabled needs it, or env.HCLOUD_NETWORK",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(helm, values, given, said) -> None:
    done = helm("template", "ours", CHART, IMAGE, values(given), check=False)
    assert done.returncode != 0
    assert said in done.stderr


def test_without_a_network_in_the_values_that_of_env_counts(render: Render, values) -> None:
    given = {"networking": {"enabled": True, "network": None}, "env": {"HCLOUD_NETWORK": {"value": "net"}}}
    assert variables_of(render(values(given))[f"Deployment/{NAME}"])["HCLOUD_NETWORK"] == "net"
