"""What a run prints, held against what the genuine CLI 3.259.0 printed for the same on 2026-11-21."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sandbox.engine.display.live import Cells, LiveTable, brief_type, layout
from sandbox.engine.display.operation import Op
from sandbox.engine.display.outputs import output_lines
from sandbox.engine.display.rows import elapsed
from sandbox.engine.display.terminal import Display, duration
from sandbox.engine.properties.values import UNKNOWN, secret
from sandbox.engine.state import graph
from sandbox.engine.state.resource import Resource

DESTROY = json.loads(Path(__file__).with_name("genuine_destroy.json").read_text())
OUTPUTS: dict[str, Any] = {
    "clusterName": "ccm-from-scratch",
    "controlIp": "198.51.100.132",
    "kubeconfig": secret("apiVersion: v1"),
    "workerIps": ["198.51.100.133", "198.51.100.134"],
}


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:local::ccm-from-scratch::{kind}::{name}"


def run(
    *operations: tuple[Op, int], preview: bool = False, refresh: bool = False
) -> tuple[Display, StringIO]:
    """A display that has seen so many operations of each kind, and a provider that the engine made itself."""
    screen = StringIO()
    display = Display(screen, preview=preview, refresh=refresh)
    shown = [(op, urn("t:i:T", f"{op}-{number}")) for op, count in operations for number in range(count)]
    hidden = [(Op.CREATE, urn("pulumi:providers:hcloud", "default_1_43_3"))]
    for op, name in shown + hidden:
        display.started(name, op)
        display.finished(name, op)
    return display, screen


def summary(*operations: tuple[Op, int], **more: bool) -> list[str]:
    display, screen = run(*operations, **more)
    display.close({}, {}, failed=False, show_secrets=False)
    lines = screen.getvalue().splitlines()
    return lines[lines.index("Resources:") :]


# --- the summary


@pytest.mark.parametrize(
    ("operations", "lines"),
    [
        ([(Op.CREATE, 44)], ["    + 44 created"]),
        ([(Op.SAME, 44)], ["    44 unchanged"]),
        ([(Op.DELETE, 50)], ["    - 50 deleted"]),
        (
            [(Op.CREATE, 11), (Op.UPDATE, 7), (Op.DELETE_REPLACED, 5), (Op.REPLACE, 5), (Op.SAME, 21)],
            ["    + 11 created", "    ~ 7 updated", "    +-5 replaced", "    23 changes. 21 unchanged"],
        ),
        # what a run finds before it begins is not its work
        ([(Op.GONE, 2), (Op.REFRESH, 1), (Op.SAME, 3)], ["    3 unchanged"]),
        ([], ["    0 unchanged"]),
    ],
)
def test_the_summary_is_that_of_the_genuine_cli(operations: list[tuple[Op, int]], lines: list[str]) -> None:
    assert summary(*operations) == ["Resources:", *lines, "", "Duration: 1s"]


def test_a_preview_says_what_would_be_and_takes_no_time() -> None:
    assert summary((Op.CREATE, 2), (Op.SAME, 1), preview=True) == [
        "Resources:",
        "    + 2 to create",
        "    1 unchanged",
    ]


def test_a_preview_uses_the_words_of_the_genuine_cli() -> None:
    operations = (Op.CREATE, Op.UPDATE, Op.DELETE, Op.DELETE_REPLACED, Op.REPLACE, Op.SAME)
    _, screen = run(*((op, 1) for op in operations), preview=True)
    symbols = {"+": "create", "~": "update", "-": "delete", "--": "delete original", "+-": "replace"}
    assert [line.split(maxsplit=2)[0] for line in screen.getvalue().splitlines()] == list(symbols)
    assert [line.split("-0 ")[1] for line in screen.getvalue().splitlines()] == list(symbols.values())


def test_a_refresh_counts_what_others_did() -> None:
    assert summary((Op.GONE, 2), (Op.REFRESH, 1), refresh=True)[1:4] == [
        "    ~ 1 updated",
        "    - 2 missing",
        "    3 changes",
    ]


def test_times_are_those_of_the_genuine_cli() -> None:
    assert [elapsed(seconds) for seconds in (0.0, 0.034, 0.6, 2.6, 19.2)] == [
        "0.00s", "0.03s", "0.60s", "3s", "19s",
    ]  # fmt: skip
    assert [duration(seconds) for seconds in (0.2, 20.1, 60, 64.2, 3600)] == [
        "1s", "21s", "1m0s", "1m5s", "1h0m0s",
    ]  # fmt: skip


def test_what_went_wrong_is_the_last_thing() -> None:
    display, screen = run((Op.CREATE, 1))
    display.diagnostic("error", "ccm-from-scratch:location 'moon' is not possible\nfsn1, nbg1 are")
    display.close(OUTPUTS, OUTPUTS, failed=True, show_secrets=False)
    printed = screen.getvalue()
    assert "Outputs" not in printed
    assert "    + 1 created\n" in printed
    assert printed.endswith(
        "    error: ccm-from-scratch:location 'moon' is not possible\n      fsn1, nbg1 are\n"
    )


def test_every_line_of_a_message_stands_where_the_genuine_cli_puts_it() -> None:
    display, screen = run((Op.CREATE, 1))
    display.diagnostic("info", "table\n  a  1\n  b  2")
    assert screen.getvalue().endswith("    table\n      a  1\n      b  2\n")


def test_a_run_that_did_nothing_says_only_why() -> None:
    display, screen = run((Op.SAME, 3))
    display.diagnostic("error", "the setting is wrong")
    display.close(OUTPUTS, {}, failed=True, show_secrets=False)
    assert screen.getvalue() == "\nDiagnostics:\n    error: the setting is wrong\n"


# --- outputs


def test_first_outputs_are_plain() -> None:
    assert output_lines({}, OUTPUTS, show_secrets=False) == [
        '    clusterName: "ccm-from-scratch"',
        '    controlIp  : "198.51.100.132"',
        "    kubeconfig : [secret]",
        "    workerIps  : [",
        '        [0]: "198.51.100.133"',
        '        [1]: "198.51.100.134"',
        "    ]",
    ]


def test_changed_outputs_are_marked() -> None:
    after = OUTPUTS | {"controlIp": "198.51.100.136", "kubeconfig": secret("apiVersion: v2")}
    lines = output_lines(OUTPUTS, after, show_secrets=False)
    assert lines[1:3] == [
        '  ~ controlIp  : "198.51.100.132" => "198.51.100.136"',
        "    kubeconfig : [secret]",
    ]
    lines = output_lines(
        {"a": [1, 2], "b": {"x": 1}}, {"a": [1, 3, 4], "b": {"x": UNKNOWN}}, show_secrets=False
    )
    assert lines == [
        "  ~ a: [",
        "        [0]: 1",
        "      ~ [1]: 2 => 3",
        "      + [2]: 4",
        "    ]",
        "  ~ b: {",
        "      ~ x: 1 => [unknown]",
        "    }",
    ]


def test_outputs_that_go_are_marked() -> None:
    assert output_lines(OUTPUTS, {}, show_secrets=True)[2:] == [
        '  - kubeconfig : "apiVersion: v1"',
        "  - workerIps  : [",
        '  -     [0]: "198.51.100.133"',
        '  -     [1]: "198.51.100.134"',
        "    ]",
    ]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
outputs = st.dictionaries(st.text("abc", min_size=1, max_size=3), values, max_size=4)


@given(outputs, outputs)
def test_every_output_has_its_line_and_only_changes_are_marked(before: Any, after: Any) -> None:
    lines = output_lines(before, after, show_secrets=False)
    for key in before.keys() | after.keys():
        (line,) = [line for line in lines if re.match(rf" .[ ~+-] {key} *: ", line)]
        unmarked = key in after and (not before or before.get(key, lines) == after[key])
        assert line.startswith("    ") == unmarked


@given(outputs)
def test_a_secret_is_never_in_an_output(tree: Any) -> None:
    hidden = {key: secret({"word": "s3cret", "more": value}) for key, value in tree.items()}
    for lines in (
        output_lines({}, hidden, show_secrets=False),
        output_lines(hidden, {"x": hidden}, show_secrets=False),
    ):
        assert "s3cret" not in "\n".join(lines)


# --- the order of a destroy


def test_a_destroy_has_the_order_of_the_genuine_engine() -> None:
    stack = [
        Resource(urn=name, type="t:i:T", custom=True, dependencies=urns)
        for name, urns in DESTROY["needs"].items()
    ]
    assert len(stack) == 44
    batches = graph.deletion_batches(stack)
    assert [sorted(resource.urn for resource in batch) for batch in batches] == DESTROY["batches"]


# --- the table on a terminal


@pytest.mark.parametrize(
    ("kind", "brief"),
    [
        ("hcloud:index/server:Server", "hcloud:Server"),
        ("pulumi-python:dynamic/ccm-from-scratch:K3sServer", "ccm-from-scratch:K3sServer"),
        ("ccm-from-scratch:index:Servers", "ccm-from-scratch:Servers"),
        ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "kubernetes:ClusterRole"),
        ("pulumi:pulumi:Stack", "pulumi:Stack"),
        ("pulumi-python:dynamic:Resource", "pulumi-python:Resource"),
    ],
)
def test_types_are_brief(kind: str, brief: str) -> None:
    assert brief_type(kind) == brief


words = st.text("abc :-(0s)", max_size=70).map(str.strip)


@given(
    st.lists(st.builds(Cells, st.just("+ "), words, words, words), min_size=1, max_size=5),
    st.integers(44, 200),
)
def test_no_line_is_wider_than_the_terminal_and_no_status_is_cut(rows: list[Cells], width: int) -> None:
    table = layout(rows, width)
    assert max(len(line) for lines in table for line in lines) <= width
    beginnings = {len(lines[0]) - len(lines[0].lstrip()) for lines in table}
    assert beginnings == {0}
    for row, lines in zip(rows, table, strict=True):
        shown = "".join("".join(lines).split())
        assert shown.endswith("".join(row.status.split()))


@pytest.mark.parametrize("width", [80, 120])
def test_a_status_is_whole_where_the_type_is_long(width: int) -> None:
    screen = Console(file=StringIO(), width=width, height=40, force_terminal=True, emoji=False, no_color=True)
    display = Display(StringIO())
    table = LiveTable(display.record, preview=False, console=screen)
    kind = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
    name = "clusterrolebinding-ccm-from-scratch-auth-delegator"
    display.started(urn(kind, name), Op.CREATE)
    display.started(urn("hcloud:index/server:Server", "control"), Op.UPDATE, ["address", "host_key"])
    display.started(urn("t:i:T", "unchanged"), Op.SAME, instant=True)
    display.status(urn(kind, name), "Waiting for app ReplicaSet to be available (0/1 Pods available)")
    table.say("2001:db8:0:a::1 and [bold]")
    table.stop()
    assert isinstance(screen.file, StringIO)
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.file.getvalue())
    assert "Starting … (0s)" in printed, "something is shown before anything has begun"
    assert "2001:db8:0:a::1 and [bold]\n" in printed
    last = printed.rsplit("Starting", 1)[-1]
    assert "unchanged" not in last
    assert "updating (0s) [diff: ~address,host_key]" in " ".join(last.split())
    joined = " ".join(last.replace("…", " ").split())
    for word in ("creating (0s)", "Waiting for app", "(0/1 Pods available)"):
        assert word in joined
    assert max(map(len, last.splitlines())) <= width
