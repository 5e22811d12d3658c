import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import TABLE
from ccm.hetzner.settings import VARIABLES
from ccm.manager.flags import FLAGS, parse_flags
from ccm.tools.plan import read_command_line
from hetzner_emulator.admin.calls import _CALLS
from hetzner_emulator.traffic.fault_rules import FaultRule
from k3s_standin.flags import FLAGS as STAND_IN_FLAGS
from sandbox.commands.bench import comparisons
from sandbox.dev import parse
from tests.e2e.documents import typed_in

TREE = Path(__file__).parents[3]
PAGES = [*(TREE / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY"))]
PAGES += [*sorted(TREE.glob("docs/**/*.md")), *sorted(TREE.glob("packages/*/README.md"))]
REFERENCE = TREE / "docs" / "reference"
FOLDERS = "bench|ccm|ccm_pulumi|charts|docs|examples|image|infra|manifests|packages|release|sandbox|tests"
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EMULATOR = tomllib.loads((TREE / "packages/emulator/pyproject.toml").read_text(encoding="utf-8"))["project"]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TREE)))


def words_in_code(page: Path) -> Iterator[str]:
    """What stands between backticks in a page's sentences."""
    for part in re.split(r"^```.*?^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
        yield from re.findall(r"`([^`\n]+)`", part)


def typed(page: Path) -> Iterator[list[str]]:
    """The command lines of a page's shell blocks, as words."""
    yield from (shlex.split(line.text, comments=True) for line in typed_in(page.read_text(encoding="utf-8")))


def quoted(page: Path) -> Iterator[list[str]]:
    """The command lines between backticks, as words."""
    yield from (word.split() for word in words_in_code(page) if " " in word)


def after(words: list[str], *beginning: str) -> list[str] | None:
    """What follows these words on a command line; None where they are not on it."""
    for start in range(len(words)):
        if words[start : start + len(beginning)] == list(beginning):
            return words[start + len(beginning) :]
    return None


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, part in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if part:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in map(anchor, headings), f"{target}#{part}"


@pages
def test_files_exist(page: Path) -> None:
    for word in words_in_code(page):
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./*-]*", word):
            assert any(TREE.glob(word.rstrip("/"))), word


@pages
def test_commands_of_dev_are_understood(page: Path) -> None:
    for words in (*typed(page), *quoted(page)):
        if given := after(words, "./dev"):
            parse([word for word in given if word != "…"])  # ends with its own message if it is wrong


@pages
def test_command_lines_of_the_ccm_are_understood(page: Path) -> None:
    for words in (*typed(page), *quoted(page)):
        given = after(words, "-m", "ccm") or []
        if given[:1] == ["lint"]:
            continue
        if given[:1] == ["plan"]:
            given = list(read_command_line(given[1:]).flags)
        flags = [word for word in given if word.startswith("-")]
        assert not parse_flags(FLAGS, flags).problems, words


@pages
def test_what_is_typed_to_the_ccm_names_a_cloud(page: Path) -> None:
    for words in typed(page):
        given = after(words, "-m", "ccm")
        if given and given[0] not in {"--help", "lint"}:
            named = ("--cloud-provider=", "--settings-from=")
            assert any(word.startswith(named) for word in given), words


@pages
def test_what_pip_installs_of_ours_is_a_wheel(page: Path) -> None:
    """By its name an index would give a stranger's package, or none: ours is on no index."""
    for words in (*typed(page), *quoted(page)):
        for word in after(words, "pip", "install") or []:
            assert not re.match("ccm-from-scratch|hetzner-emulator", word.replace("_", "-")), words
            if extra := re.search(r"\[(.+)\]", word):
                project = EMULATOR if "hetzner_emulator" in word else PROJECT
                assert extra[1] in project["optional-dependencies"], words


@pages
def test_flags_exist(page: Path) -> None:
    known = {flag.name for flag in (*FLAGS, *STAND_IN_FLAGS)}
    known |= {"for", "settings-from"}  # of plan and lint
    known |= {"every", "editor", "watch"}  # of ./dev test and ./dev run
    known |= {"output", "push", "release", "state-dir"}  # of ./dev image, and of hetzner-emulator serve
    known |= {"check", "key", "tag", "uncommitted"}  # of ./dev release
    known |= {"all", "focus", "node-deletion", "processes"}  # of ./dev conformance
    known |= {"replace", "skip-preview", "target"}  # of pulumi
    for word in words_in_code(page):
        flag = re.match(r"--([a-z][a-z0-9-]*)", word)
        if flag and page.name != "benchmarks.md" and word not in {"--name=value", "--name value"}:
            assert flag[1] in known, word


STACK = yaml.safe_load((TREE / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
NAMED = {
    r"\b(?:HCLOUD|ROBOT|CCM)_[A-Z0-9_]*[A-Z0-9]\b": {
        f"{one.name}{end}" for one in VARIABLES for end in ("", "_FILE")
    },
    re.escape(PREFIX) + r"[a-z][a-z0-9-]*": {PREFIX + key.name for key in TABLE},
    r"ccm-from-scratch:[a-z]\w+": STACK,
}


@pages
@pytest.mark.parametrize("pattern", NAMED, ids=["variables", "annotations", "settings of the stack"])
def test_names_exist(page: Path, pattern: str) -> None:
    for name in re.findall(pattern, page.read_text(encoding="utf-8")):
        assert name in NAMED[pattern], name


@pages
def test_metrics_exist(page: Path) -> None:
    known = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    for word in words_in_code(page):
        if word not in {"ccm_pulumi", "ccm_image"} and re.fullmatch(
            r"(?:ccm|workqueue|hcloud_api|leader_election|rest_client)_[a-z_]+[a-z]", word
        ):
            assert f"`{word}`" in known, word


def test_the_comparisons_are_all_described() -> None:
    text = (REFERENCE / "benchmarks.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `\./dev bench ([\w-]+)`", text, re.MULTILINE))
    assert {name.replace("-", "_") for name in described} == {*comparisons(TREE)}


def test_the_admin_calls_are_all_described() -> None:
    text = (REFERENCE / "sandbox-admin-api.md").read_text(encoding="utf-8")
    first = " ".join(line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `"))
    for _, path, _ in _CALLS:
        plain = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)
        beginning = re.escape(plain.partition("{")[0])
        assert re.search(rf"`[A-Z`, ]*{beginning}", first), path


def test_the_fields_of_faults_are_all_described() -> None:
    text = (REFERENCE / "sandbox-admin-api.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert described - {"GET"} == set(FaultRule.__struct_fields__) - {"id"}


def test_flags_of_the_manifest_are_understood() -> None:
    (deployment,) = yaml.safe_load_all((TREE / "manifests/deployment.yaml").read_text(encoding="utf-8"))
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not parse_flags(FLAGS, arguments).problems


def test_every_alert_watches_an_objective() -> None:
    rules = yaml.safe_load(
        (TREE / "charts/ccm-from-scratch/monitoring/rules.yaml").read_text(encoding="utf-8")
    )
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    page = (REFERENCE / "service-levels.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(HetznerCCM\w+)`", page)) == alerts
