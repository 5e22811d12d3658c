import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from k3s_standin import cli, log, paths, runtime
from k3s_standin.children import SLACK_NANOSECONDS, Children
from k3s_standin.errors import ChildEndedError
from tests.child_processes import script
from tests.waiting import until, wait

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def programs_folder(tmp_path):
    """Programs that stand in for components."""
    folder = tmp_path / "programs"
    scripts = {
        "etcd": "exec sleep 600",
        "kubelet": "trap '' TERM\necho started\nwhile :; do sleep 0.1; done",
        "kube-apiserver": "cat /proc/self/timerslack_ns",
        "runc": 'echo "$@" $(cat /proc/self/timerslack_ns)',
        "kube-proxy": "echo first\necho last >&2\nexit 7",
    }
    for name, text in scripts.items():
        script(folder / name, text)
    return folder


def test_version_help_and_generated_tokens_need_no_cluster(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["k3s", "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("k3s version v1.37.2+k3s1")
    assert cli.main(["k3s", "token", "generate"]) == 0
    assert len(capsys.readouterr().out.strip()) == 32
    assert cli.main(["k3s", "agent", "--help"]) == 0
    assert "--node-external-ip" in capsys.readouterr().out
    assert cli.main(["k3s"]) == 0


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["k3s", "nonsense"], "unknown command 'nonsense'"),
        (["k3s", "etcd-snapshot", "save", "x"], "this command does not take any arguments"),
        (["/usr/local/bin/crictl", "ps"], "doesn't support `k3s crictl`"),
        (["k3s", "token", "list"], "supports only `k3s token create`"),
        (["k3s", "server"], "runs only on machines of the sandbox"),
        (["k3s", "kubectl", "get", "nodes"], "runs only on machines of the sandbox"),
    ],
)
def test_errors_are_one_line_and_status_2(argv, text, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "PROGRAMS", tmp_path / "nowhere")
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.out == ""


def test_a_token_is_printed_once_a_server_has_started(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paths, "NODE_TOKEN", tmp_path / "node-token")
    assert cli.main(["k3s", "token", "create"]) == 2
    assert "no k3s server has started on this machine" in capsys.readouterr().err
    (tmp_path / "node-token").write_text("K10secret\n")
    assert cli.main(["k3s", "token", "create"]) == 0
    assert capsys.readouterr().out == "K10secret\n"


def test_systemd_is_notified(monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        log.notify("READY=1")
        assert systemd.recv(100) == b"READY=1"
    monkeypatch.delenv("NOTIFY_SOCKET")
    log.notify("READY=1")


async def test_children_end_together(programs_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("k3s_standin.children.STOP_SECONDS", 0.3)
    children = Children(programs_folder, tmp_path / "logs")
    await children.start(["etcd"])
    await children.start(["kubelet"])
    await until(lambda: children.tail("kubelet") == "started")
    pids = [process.pid for process in children._processes.values()]
    await children.stop()
    assert not any(alive(pid) for pid in pids)
    await children.stop()


async def test_children_end_without_waiting(programs_folder, tmp_path):
    children = Children(programs_folder, tmp_path / "logs")
    await children.start(["kubelet"])
    await until(lambda: children.tail("kubelet") == "started")
    pids = [process.pid for process in children._processes.values()]
    stopping = asyncio.create_task(children.stop())
    await asyncio.sleep(0)  # it has begun
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not any(alive(pid) for pid in pids)


async def test_a_dead_child_is_named_with_its_last_output(programs_folder, tmp_path):
    children = Children(programs_folder, tmp_path / "logs")
    await children.start(["etcd"])
    await children.start(["kube-proxy"])
    async with asyncio.timeout(60):
        await children.until_one_ends()
    with pytest.raises(ChildEndedError) as caught:
        children.check()
    assert (caught.value.component, caught.value.status) == ("kube-proxy", 7)
    assert caught.value.tail == "first\nlast"
    await children.stop()


async def test_oom_scores(monkeypatch, programs_folder, tmp_path):
    monkeypatch.setattr(paths, "PROGRAMS", programs_folder)
    script(programs_folder / "containerd", runtime.runc_script(40_000, "236 device-mapper\n"))
    children = Children(programs_folder, tmp_path / "logs")
    late = {}
    for name, arguments in (("kube-apiserver", []), ("containerd", ["run", "a container"])):
        await children.start([name, *arguments])
        await until(lambda name=name: "\n" in children.log(name).read_text())
        late[name] = children.tail(name)
    await children.stop()
    assert late == {"kube-apiserver": str(SLACK_NANOSECONDS), "containerd": "run a container 40000"}


PARENT = """
import asyncio, pathlib, sys
from k3s_standin.children import Children
async def main():
    children = Children(*map(pathlib.Path, sys.argv[1:]))
    await children.start(["etcd"])
    print(children._processes["etcd"].pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_children_do_not_outlive_a_parent_that_is_killed(programs_folder, tmp_path):
    command = [sys.executable, "-c", PARENT, programs_folder, tmp_path / "logs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        child = int(parent.stdout.readline())
        assert alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait(lambda: not alive(child))


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
