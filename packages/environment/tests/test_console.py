import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sandbox.console import Steps


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=0.0)


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def steps(screen: io.StringIO, clock: SimpleNamespace) -> Steps:
    return Steps(Console(file=screen, force_terminal=False, width=40), lambda: clock.now)


@pytest.mark.parametrize("text", ["2001:db8:0:a::1 :smile:", "[bold]x[/bold] [0] " + "x" * 60])
def test_messages_are_printed_unchanged(steps, screen, text):
    steps.note(text)
    with steps.step(text) as progress:
        progress(text)
    assert screen.getvalue().count(text) == 4


def test_ended_steps_are_marked(steps, screen, clock):
    with pytest.raises(OSError, match="full"), steps.step("build", "built"):
        raise OSError("full")
    with steps.step("test"):
        clock.now += 1.25
    assert screen.getvalue() == "✗ build (0.0 s)\n✓ test (1.2 s)\n"


def test_progress_without_a_terminal(steps, screen, clock):
    with steps.step("build") as progress:
        for second in range(0, 65, 5):
            clock.now = second
            progress(f"kubelet (1 of 2): {second} s")
        progress("etcd (2 of 2)")
    assert screen.getvalue().splitlines()[:-1] == [
        "  build: kubelet (1 of 2): 0 s",
        "  build: kubelet (1 of 2): 30 s",
        "  build: kubelet (1 of 2): 60 s",
        "  build: etcd (2 of 2)",
    ]
