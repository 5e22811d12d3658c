import contextlib
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.__main__ import main
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.tools.lint import _OFFERED, Unreadable, lint
from hetzner_emulator.models.catalogs import LOAD_BALANCER_TYPES, LOCATION_CATALOG

BAD = """
apiVersion: v1
kind: Service
metadata:
  name: web
  annotations:
    load-balancer.hetzner.cloud/algorithm-type: random
    load-balancer.hetzner.cloud/typ: lb11
    load-balancer.hetzner.cloud/port.443.protocol: https
spec:
  type: LoadBalancer
  loadBalancerSourceRanges: [10.0.0.0/8]
  ports:
    - {port: 80}
    - {port: 443}
    - {port: 53, protocol: UDP}
"""
UNQUOTED = """
kind: Service
metadata:
  name: web
  annotations:
    load-balancer.hetzner.cloud/use-private-ip: true
    load-balancer.hetzner.cloud/health-check-retries: 9
    load-balancer.hetzner.cloud/algorithm-type: random
    load-balancer.hetzner.cloud/name:
spec: {type: LoadBalancer, ports: [{port: 80}]}
"""


def manifest(annotations: object, name: str = "web") -> str:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    return json.dumps(
        {"kind": "Service", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


def texts(text: str, *, for_official: bool = False) -> list[str]:
    """What is found, without file and object."""
    return [finding.split(": ", 2)[2] for finding in lint("file", text, for_official=for_official)[1]]


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (
            BAD,
            [
                f"{PREFIX}algorithm-type: 'random' is not round_robin or least_connections",
                f"{PREFIX}typ: there is no such annotation; did you mean {PREFIX}type?",
                "the load balancer doesn't forward these ports: 53/UDP",
                "don't support them: loadBalancerSourceRanges (10.0.0.0/8)",
                "port 443 has protocol https and no certificate",
            ],
        ),
        (
            UNQUOTED,
            [
                f"{PREFIX}use-private-ip: true isn't a string: put it in quotes, 'true'",
                f"{PREFIX}health-check-retries: 9 isn't a string: put it in quotes, '9'",
                f"{PREFIX}health-check-retries: '9' is not a whole number from 1 to 5",
                f"{PREFIX}algorithm-type: 'random' is not round_robin or least_connections",
            ],
        ),
        (manifest({PREFIX + "algorithm-type": "random"}).replace("80", '"http"'), ["ports", "random"]),
        (manifest(["a"]).replace("LoadBalancer", "ClusterIP"), ["metadata.annotations isn't a mapping"]),
        (
            manifest(
                {PREFIX + "location": "moon", PREFIX + "network-zone": "eu-centrall", PREFIX + "type": "lb99"}
            ),
            ["'moon' isn't known", "did you mean 'eu-central'?", f"{PREFIX}type: 'lb99' isn't known"],
        ),
        (manifest({PREFIX + "public-net-ipv4": "203.0.113.9"}), ["is not the ID or name of a Primary IP"]),
        (manifest({PREFIX + "public-net-ipv4": "2001:db8::/64"}), ["is not the ID or name of a Primary IP"]),
        (
            manifest({PREFIX + "public-net-ipv4": "a", PREFIX + "disable-public-network": "true"}),
            ["needs the public network"],
        ),
        (
            manifest({PREFIX + "public-net-ipv4": "a", PREFIX + "public-net-ipv6": "a"}),
            ["can't be both an IPv4 address and an IPv6 address"] * 2,
        ),
        (
            manifest({PREFIX + "public-net-ipv4": "a", PREFIX + "adopt": "4711"}),
            ["has no effect together with"],
        ),
        (manifest({PREFIX + "public-net-ipv4": "a", PREFIX + "disable-public-network": "false"}), []),
    ],
)
def test_findings(text: str, findings: list[str]) -> None:
    found = texts(text)
    assert len(found) == len(findings)
    assert all(words in finding for words, finding in zip(findings, found, strict=True))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("load-balancer.hetzner.com/type", "load-balancer.hetzner.cloud/type"),
        ("loadbalancer.hetzner.cloud/type", "load-balancer.hetzner.cloud/type"),
        ("Load-Balancer.hetzner.cloud/name", "load-balancer.hetzner.cloud/name"),
        ("service.beta.kubernetes.io/load-balancer-source-ranges", None),
        ("metallb.universe.tf/address-pool", None),
        ("load-balancer.example.com/type", None),
        ("instance.hetzner.cloud/provided-by", None),
        ("note", None),
    ],
)
def test_a_prefix_that_is_nearly_ours_is_named(name: str, meant: str | None) -> None:
    hints = [finding for finding in texts(manifest({name: "lb11"})) if "did you mean" in finding]
    assert [hint.rpartition("did you mean ")[2] for hint in hints] == ([f"{meant!r}?"] if meant else [])


def test_two_load_balancers_can_not_have_one_primary_ip() -> None:
    key = {PREFIX + "public-net-ipv4": "shop"}
    _, [finding] = lint("f", "\n---\n".join(manifest(key, name) for name in ("a", "b")))
    assert "service b: " in finding
    assert finding.endswith("service a")
    shared = key | {PREFIX + "share": "edge"}
    assert lint("f", "\n---\n".join(manifest(shared, name) for name in ("a", "b")))[1] == []


def test_lint_knows_what_the_emulated_cloud_offers() -> None:
    assert {entry.name for entry in LOCATION_CATALOG.entries} == set(_OFFERED["location"])
    assert {entry.network_zone for entry in LOCATION_CATALOG.entries} == set(_OFFERED["network-zone"])
    assert {entry.name for entry in LOAD_BALANCER_TYPES.entries} == set(_OFFERED["type"])


def test_the_official_ccm_is_compared_on_request() -> None:
    text = BAD.replace("typ: lb11", "health-check-interval: '20'")
    assert not any("official" in finding for finding in texts(text))
    found = texts(text, for_official=True)
    assert [one for one in found if one.startswith("under the official CCM: ")] == found[-2:]
    assert "port.443.protocol" in found[-2]
    assert found[-1].endswith("Set the value '20s'")


def test_services_in_lists_and_their_namespaces() -> None:
    service = "{kind: Service, spec: {type: LoadBalancer, ports: [{port: 80}]}}"
    text = f"kind: List\nitems:\n- {service}\n- {{kind: Pod}}\n---\n- 1\n"
    assert lint("file", text) == (1, [])
    text = BAD.replace("name: web", "name: web\n  namespace: shop", 1)
    assert all(finding.startswith("f: service shop/web: ") for finding in lint("f", text)[1])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the current folder, and one on standard input."""
    example = Path(__file__).parents[3] / "manifests" / "examples" / "service.yaml"
    contents = {"bad": BAD, "good": example.read_text(), "broken": "a: [", "deep": "a: " + "[" * 1000}
    for name, content in contents.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["bad.yaml"], 1, "5 findings"),
        (["good.yaml"], 0, "1 Service of type LoadBalancer, 0 findings"),
        (["nothing.yaml"], 2, "nothing.yaml: can't be read"),
        (["broken.yaml"], 2, 'in "broken.yaml", line 1, column 5'),
        (["broken.yaml"], 2, "\n    a: [\n        ^"),
        (["deep.yaml"], 2, "Error: deep.yaml: lists or mappings are nested too deeply\n"),
        (["."], 2, "./*.yaml"),
        (["broken.yaml", "nothing.yaml", "bad.yaml"], 2, f"did you mean {PREFIX}type?"),
        (["broken.yaml", "nothing.yaml", "bad.yaml"], 2, "broken.yaml: this is not YAML"),
        (["--for=official", "-"], 1, "-: service web: under the official CCM: "),
        (["--for=nobody", "bad.yaml"], 2, "'--for=nobody' is not --for=official"),
        (["--help"], 0, "Usage:"),
        ([], 2, "Usage:"),
    ],
)
@pytest.mark.usefixtures("files")
def test_the_command(
    arguments: list[str], code: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", *arguments]) == code
    captured = capsys.readouterr()
    assert printed in captured.out + captured.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!bool perhaps\n", "a tag, such as !!bool, doesn't match"),
        ("a: !!timestamp foo\n", "a tag, such as !!bool, doesn't match"),
        ("{{- if .Values.service }}\nkind: Service\n{{- end }}", "helm template"),
    ],
)
def test_what_is_not_yaml_is_one_error(text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=rf"^file: this is not YAML: [\s\S]*{words}"):
        lint("file", text)


@given(st.text(max_size=80))
def test_any_text_ends_in_findings_or_one_error(text: str) -> None:
    with contextlib.suppress(Unreadable):
        lint("file", f"kind: Service\nmetadata:\n  annotations:\n    x: {text}")
