import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cluster import NodeState
from sandbox.overview import EXPENDABLE, HEADER, aligned, console, fitted, row

NODE = (
    "ccm-from-scratch-worker-1", "yes", "ccm-from-scratch://4000002", "10.0.0.2", "203.0.113.5", "cpx22",
    "eu-central", "fsn1", "10.244.0.0/24",
)  # fmt: skip


@pytest.mark.parametrize(("width", "gone"), [(None, 0), (128, 0), (120, 1), (100, 3), (80, 4)])
def test_columns_that_do_not_fit(width, gone):
    table = fitted([HEADER, NODE], width, EXPENDABLE)
    assert set(HEADER) - set(table[0]) == set(EXPENDABLE[:gone])
    assert max(map(len, aligned(table).splitlines())) <= (width or 200)


@given(st.lists(st.tuples(*[st.text(max_size=30)] * len(HEADER)), max_size=4), st.integers(1, 200))
def test_columns_that_fit(nodes, width):
    table = fitted([HEADER, *nodes], width, EXPENDABLE)
    places = [HEADER.index(header) for header in table[0]]
    assert table[1:] == [[node[place] for place in places] for node in nodes]
    assert {"NODE", "READY", "INTERNAL-IP", "EXTERNAL-IP"} <= set(table[0])


def test_servers_that_are_off_and_control_characters_of_a_kubelet_are_shown():
    node = NodeState("a", True, True, "ccm-from-scratch://4000001", "", "", "", "", "", "")
    ready = HEADER.index("READY")
    assert [row(node, off)[ready] for off in ((), {"4000002"}, {"4000001"})] == ["yes", "yes", "off"]
    node = NodeState("a", True, True, "", "\x1b[2J\r10.0.0.2", "\x9b1m", "", "", "", "")
    said = aligned([HEADER, row(node)])
    assert all(line.isprintable() for line in said.splitlines())
    assert "\\x1b[2J\\r10.0.0.2  \\x9b1m" in said


def test_the_token_of_the_console_is_for_a_terminal_only(site):
    assert f"/_sandbox/console#token={site.token}" in console(site, terminal=True)
    assert site.token not in console(site, terminal=False)
    assert f"http://127.0.0.1:{site.port}/_sandbox/console " in console(site, terminal=False)
