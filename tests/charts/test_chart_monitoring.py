import json
import re
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from test_chart import CHART, IMAGE, NAME, PODMONITOR, TREE, Render

from ccm.hetzner.api.api_errors import _BY_CODE, Unauthorized, Unavailable
from tests import child_processes, prometheus_server

MONITORING = CHART / "monitoring"
RULES, DASHBOARD = MONITORING / "rules.yaml", MONITORING / "dashboard.json"
CASES = Path(__file__).parent / "alerts.yaml"
GUIDE = TREE / "docs" / "guides" / "operating.md"
OPERATOR = "--api-versions=monitoring.coreos.com/v1/PrometheusRule"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
Helm = Callable[..., "subprocess.CompletedProcess[str]"]


def built(test):
    """Marks a test for which Helm and Prometheus may have to be built."""
    return pytest.mark.slow(pytest.mark.timeout(1800)(test))


@pytest.fixture(scope="session")
def promtool() -> Path:
    return prometheus_server.programs() / "promtool"


def run(promtool: Path, *arguments: object) -> str:
    done = child_processes.run([promtool, *map(str, arguments)], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@built
def test_promtool_has_nothing_against_the_rules(promtool: Path) -> None:
    said = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"SUCCESS: {len(ALERTS)} rules found" in said


@built
def test_each_alert_fires_when_it_should_and_only_then(promtool: Path) -> None:
    run(promtool, "test", "rules", CASES)


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    fires, silent = set(), set()
    for case in cases:
        alert = case["name"].partition(" ")[0]
        seen = [sample["labels"] for test in case["promql_expr_test"] for sample in test["exp_samples"]]
        found = any(f'alertname="{alert}"' in labels for labels in seen)
        (fires if found else silent).add(alert)
    assert fires == silent == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_leads_to_its_section_of_the_guide(name: str) -> None:
    rule = ALERTS[name]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["runbook_url"] == f"docs/guides/operating.md#{name.lower()}"
    assert f"\n### {name}\n" in GUIDE.read_text(encoding="utf-8")


def test_the_guide_has_no_other_alerts() -> None:
    assert set(re.findall(r"HetznerCCM[A-Z]\w*", GUIDE.read_text(encoding="utf-8"))) == set(ALERTS)


@pytest.mark.parametrize(
    ("alert", "kind"), [("HetznerCCMTokenRefused", Unauthorized), ("HetznerCCMApiFails", Unavailable)]
)
def test_the_codes_of_an_alert_are_those_of_the_errors(alert: str, kind: type) -> None:
    (codes,) = re.findall(r'code=~"([^"]*)"', ALERTS[alert]["expr"])
    known = {code for code, one in _BY_CODE.items() if one is kind}
    assert {code for code in _BY_CODE if re.fullmatch(codes, code)} == known


def test_the_dashboard_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(TREE / "charts" / "dashboard.py"))["text"]
    assert DASHBOARD.read_text(encoding="utf-8") == made() == made(), "run: python charts/dashboard.py"


def test_its_panels_lie_side_by_side_and_not_on_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


@built
def test_both_are_off_by_default_and_rules_wait_for_the_operator(render: Render) -> None:
    kinds = {name.partition("/")[0] for name in render(OPERATOR)}
    assert not kinds & {"PrometheusRule", "ConfigMap"}
    assert f"PrometheusRule/{NAME}" not in render("--set=monitoring.prometheusRule.enabled=true")


@built
def test_the_rule_has_the_alerts_as_they_are(render: Render, tmp_path: Path) -> None:
    on = ("--set=monitoring.prometheusRule.enabled=true", OPERATOR)
    values = {"monitoring": {"prometheusRule": {"labels": {"release": "{{ .Release.Name }}"}}}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    rule = render(*on, f"--values={tmp_path / 'values.yaml'}")[f"PrometheusRule/{NAME}"]
    assert rule["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"] == {"release": "ours"}


@built
def test_alerts_can_name_where_ones_own_copy_of_the_guide_is(render: Render) -> None:
    address = "https://wiki.example.com/ccm"
    given = f"--set=monitoring.prometheusRule.enabled=true,monitoring.prometheusRule.runbook={address}"
    rules = render(given, OPERATOR)[f"PrometheusRule/{NAME}"]["spec"]["groups"][0]["rules"]
    links = {rule["annotations"]["runbook_url"] for rule in rules}
    assert links == {f"{address}#{name.lower()}" for name in ALERTS}


@built
def test_the_sidecar_of_grafana_finds_the_dashboard(render: Render) -> None:
    found = render("--set=monitoring.dashboard.enabled=true")[f"ConfigMap/{NAME}-dashboard"]
    assert found["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert found["data"]["ccm-from-scratch.json"] == DASHBOARD.read_text(encoding="utf-8")


@built
@pytest.mark.parametrize("part", ["podMonitor", "serviceMonitor", "prometheusRule", "dashboard"])
def test_a_part_that_is_set_to_nothing_is_off(helm: Helm, part: str) -> None:
    off = ("ours", CHART, IMAGE, f"--set=monitoring.{part}=null")
    assert helm("template", *off, OPERATOR).stdout == helm("template", *off[:-1], OPERATOR).stdout
    assert "STATUS: pending-install" in helm("install", "--dry-run=client", *off).stdout


PAGES = {
    f"{page.stem}-{number}": values
    for page in sorted((TREE / "docs").rglob("*.md"))
    for number, block in enumerate(
        re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    if isinstance(values := yaml.safe_load(block.partition("\n---")[0]), dict) and "monitoring" in values
}
WARNED = "HetznerCCMAbsent fires after ten"


@built
@pytest.mark.parametrize("page", PAGES)
def test_values_that_a_page_shows_bring_what_lets_the_alerts_see_something(
    render: Render, helm: Helm, tmp_path: Path, page: str
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(PAGES[page]))
    given = (f"--values={tmp_path / 'values.yaml'}", OPERATOR)
    objects = render(*given, PODMONITOR)
    assert {f"PrometheusRule/{NAME}", f"PodMonitor/{NAME}"} <= objects.keys()
    assert WARNED not in helm("install", "--dry-run=client", "ours", CHART, IMAGE, *given[:1]).stdout


@built
@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ("prometheusRule.enabled=true", True),
        ("prometheusRule.enabled=true,monitoring.podMonitor.enabled=true", False),
        ("prometheusRule.enabled=true,monitoring.serviceMonitor.enabled=true", False),
        ("prometheusRule.enabled=true,monitoring.podMonitor.enabled=true,monitoring.enabled=false", True),
        ("podMonitor.enabled=false", False),
    ],
)
def test_alerts_without_a_monitor_are_warned_of(helm: Helm, given: str, warned: bool) -> None:
    said = helm("install", "--dry-run=client", "ours", CHART, IMAGE, f"--set=monitoring.{given}").stdout
    assert (WARNED in said) == warned


def test_there_is_such_a_page() -> None:
    assert PAGES
