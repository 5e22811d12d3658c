"""`python -m ccm lint` on files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccm.__main__ import main
from ccm.hetzner.lint import Unreadable, lint

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


def texts(text: str) -> list[str]:
    return [finding.text for finding in lint("file", text)[1]]


def test_everything_that_is_wrong_is_found() -> None:
    assert texts(BAD) == [
        "load-balancer.hetzner.cloud/algorithm-type: 'random' is not round_robin or least_connections",
        "load-balancer.hetzner.cloud/typ: there is no such annotation",
        "Hetzner load balancers only know TCP; these ports are left out: 53/UDP",
        "Hetzner load balancers can't do this, so it has no effect: loadBalancerSourceRanges (10.0.0.0/8)",
        "port 443 has protocol https and no certificate: name some in http-certificates",
    ]


def test_an_annotation_without_quotes() -> None:
    annotations = "{load-balancer.hetzner.cloud/use-private-ip: true}"
    text = f"kind: Service\nmetadata: {{name: web, annotations: {annotations}}}\n"
    [finding] = texts(text)
    assert "put them in quotes" in finding


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
    assert "this is no YAML" in capsys.readouterr().err
    assert main(["lint"]) == 2
    assert main(["lint", "--help"]) == 0


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_ends_in_findings_or_one_error(text: str) -> None:
    with contextlib.suppress(Unreadable):
        lint("file", f"kind: Service\nmetadata:\n  annotations:\n    x: {text}")
