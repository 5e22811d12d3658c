"""`python -m ccm lint` on files."""

from __future__ import annotations

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


def texts(text: str, *, for_official: bool = False) -> list[str]:
    """What is found, without file and object."""
    return [finding.split(": ", 2)[2] for finding in lint("file", text, for_official=for_official)[1]]


def test_everything_that_is_wrong_is_found() -> None:
    assert texts(BAD) == [
        "load-balancer.hetzner.cloud/algorithm-type: 'random' is not round_robin or least_connections",
        f"{PREFIX}typ: there is no such annotation; did you mean {PREFIX}type?",
        "Hetzner load balancers only know TCP; these ports are left out: 53/UDP",
        "Hetzner load balancers can't do this, so it has no effect: loadBalancerSourceRanges (10.0.0.0/8)",
        "port 443 has protocol https and no certificate: name some in http-certificates",
    ]


def test_values_without_quotes_hide_nothing_else() -> None:
    text = """
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
    assert texts(text) == [
        "load-balancer.hetzner.cloud/use-private-ip: true is not a text: put it in quotes, 'true'",
        "load-balancer.hetzner.cloud/health-check-retries: 9 is not a text: put it in quotes, '9'",
        "load-balancer.hetzner.cloud/health-check-retries: '9' is not a whole number from 1 to 5",
        "load-balancer.hetzner.cloud/algorithm-type: 'random' is not round_robin or least_connections",
    ]


def test_what_is_wrong_elsewhere_hides_no_annotation() -> None:
    annotations = "{load-balancer.hetzner.cloud/algorithm-type: random}"
    spec = "{type: LoadBalancer, ports: [{port: http}]}"
    first, second = texts(f"kind: Service\nmetadata: {{annotations: {annotations}}}\nspec: {spec}\n")
    assert "ports" in first
    assert "random" in second
    assert texts("kind: Service\nmetadata: {annotations: [a]}") == [
        "metadata.annotations is not a table of texts"
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("load-balancer.hetzner.com/type", "load-balancer.hetzner.cloud/type"),
        ("loadbalancer.hetzner.cloud/type", "load-balancer.hetzner.cloud/type"),
        ("Load-Balancer.hetzner.cloud/name", "load-balancer.hetzner.cloud/name"),
    ],
)
def test_a_prefix_that_is_nearly_ours_is_named(name: str, meant: str) -> None:
    spec = "{type: LoadBalancer, ports: [{port: 80}]}"
    [finding] = texts(f"kind: Service\nmetadata: {{annotations: {{{name}: lb11}}}}\nspec: {spec}")
    assert finding.endswith(f"did you mean {meant!r}?")


@pytest.mark.parametrize(
    "name",
    [
        "service.beta.kubernetes.io/load-balancer-source-ranges",
        "metallb.universe.tf/address-pool",
        "load-balancer.example.com/type",
        "instance.hetzner.cloud/provided-by",
        "note",
    ],
)
def test_prefixes_of_others_are_theirs(name: str) -> None:
    spec = "{type: LoadBalancer, ports: [{port: 80}]}"
    found = texts(f"kind: Service\nmetadata: {{annotations: {{{name}: lb11}}}}\nspec: {spec}")
    assert not any("did you mean" in one for one in found)


def test_places_and_types_that_hetzner_has_not() -> None:
    annotations = "\n".join(
        f"    {PREFIX}{key}: {value}"
        for key, value in {"location": "moon", "network-zone": "eu-centrall", "type": "lb99"}.items()
    )
    head = f"kind: Service\nmetadata:\n  annotations:\n{annotations}\n"
    moon, zone, kind = texts(f"{head}spec: {{type: LoadBalancer, ports: [{{port: 80}}]}}")
    assert f"{PREFIX}location: 'moon' is none that was known" in moon
    assert "(ash, fsn1, hel1, hil, nbg1, sin)" in moon
    assert zone.endswith("did you mean 'eu-central'?")
    assert f"{PREFIX}type: 'lb99' is none" in kind


def test_what_lint_knows_is_what_the_emulated_cloud_offers() -> None:
    assert {entry.name for entry in LOCATION_CATALOG.entries} == set(_OFFERED["location"])
    assert {entry.network_zone for entry in LOCATION_CATALOG.entries} == set(_OFFERED["network-zone"])
    assert {entry.name for entry in LOAD_BALANCER_TYPES.entries} == set(_OFFERED["type"])


def test_what_the_official_ccm_would_make_of_it_is_told_when_asked_for() -> None:
    text = BAD.replace("typ: lb11", "health-check-interval: '20'")
    assert not any("official" in one for one in texts(text))
    told = texts(text, for_official=True)
    assert [one for one in told if one.startswith("under the official CCM: ")] == told[-2:]
    assert "port.443.protocol" in told[-2]
    assert told[-1].endswith("write '20s'")


def test_services_inside_of_lists_and_other_objects() -> None:
    service = "{kind: Service, spec: {type: LoadBalancer, ports: [{port: 80}]}}"
    text = f"kind: List\nitems:\n- {service}\n- {{kind: Pod}}\n---\n- 1\n"
    assert lint("file", text) == (1, [])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    assert main(["lint", str(bad)]) == 1
    assert "5 findings" in capsys.readouterr().out
    example = Path(__file__).parents[3] / "manifests" / "examples" / "service.yaml"
    assert main(["lint", str(example)]) == 0
    assert main(["lint", str(tmp_path / "nothing.yaml")]) == 2
    bad.write_text("a: [")
    assert main(["lint", str(bad)]) == 2
    said = capsys.readouterr().err
    assert "this is not YAML" in said
    assert f'in "{bad}", line 1, column 5' in said
    assert "\n    a: [\n        ^" in said
    assert main(["lint"]) == 2
    assert main(["lint", "--help"]) == 0
    assert main(["lint", "--for=nobody", str(bad)]) == 2
    assert "'--for=nobody' is not --for=official" in capsys.readouterr().err


def test_a_file_that_cant_be_read_hides_nothing_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, bad = tmp_path / "broken.yaml", tmp_path / "bad.yaml"
    broken.write_text("a: b\n  c: d\n")
    bad.write_text(BAD)
    assert main(["lint", str(broken), str(tmp_path / "missing.yaml"), str(bad)]) == 2
    captured = capsys.readouterr()
    assert "did you mean load-balancer.hetzner.cloud/type?" in captured.out
    assert f"{broken}: this is not YAML" in captured.err
    assert "missing.yaml: can't be read" in captured.err


def test_nesting_without_end_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 5000)
    assert main(["lint", str(deep)]) == 2
    assert capsys.readouterr().err == f"Error: {deep}: lists or tables are nested too deep to be read\n"


@pytest.mark.parametrize("tagged", ["!!bool perhaps", "!!timestamp foo"])
def test_a_tag_before_another_thing_is_one_error(tagged: str) -> None:
    with pytest.raises(Unreadable, match=r"^file: this is not YAML: a tag such as !!bool"):
        lint("file", f"a: {tagged}\n")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))
    assert main(["lint", "--for=official", "-"]) == 1
    assert "-: service web: under the official CCM: " in capsys.readouterr().out


@given(st.text(max_size=80))
def test_any_text_ends_in_findings_or_one_error(text: str) -> None:
    with contextlib.suppress(Unreadable):
        lint("file", f"kind: Service\nmetadata:\n  annotations:\n    x: {text}")


def test_primary_ips_that_no_load_balancer_can_have() -> None:
    key, off = PREFIX + "public-net-ipv4", PREFIX + "disable-public-network"
    for written, words in (
        ({key: "203.0.113.9"}, "not its address"),
        ({key: "2001:db8::/64"}, "not its address"),
        ({key: "shop", off: "true"}, "needs the public network"),
        ({key: "shop", PREFIX + "public-net-ipv6": "shop"}, "can't be an IPv4 and an IPv6 address"),
        ({key: "shop", PREFIX + "adopt": "4711"}, "has no effect together with"),
        ({key: "shop", off: "false"}, ""),
    ):
        _, found = lint("f", manifest("web", written))
        assert any(words in one for one in found) if words else found == [], written
    twice = "\n---\n".join(manifest(name, {key: "shop"}) for name in ("a", "b"))
    _, [finding] = lint("f", twice)
    assert "service b: " in finding
    assert finding.endswith("service a")
    shared = {key: "shop", PREFIX + "share": "edge"}
    assert lint("f", "\n---\n".join(manifest(name, shared) for name in ("a", "b")))[1] == []


def manifest(name: str, annotations: dict[str, str]) -> str:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    return json.dumps(
        {"kind": "Service", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


def test_what_to_give_in_place_of_a_folder_or_a_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(tmp_path)]) == 2
    assert f"{tmp_path}/*.yaml" in capsys.readouterr().err
    with pytest.raises(Unreadable, match="helm template"):
        lint("f", "{{- if .Values.service }}\nkind: Service\n{{- end }}")
    text = BAD.replace("name: web", "name: web\n  namespace: shop", 1)
    assert all(one.startswith("f: service shop/web: ") for one in lint("f", text)[1])
