import dataclasses
import itertools

import asyncssh
import pytest

from ccm_pulumi.lib.errors import HostKeyError, RemoteCommandError, UnreachableError
from ccm_pulumi.lib.ssh import Host, connect, connect_first
from ccm_pulumi.servers.keys import new_key_pair


async def test_a_script_says_what_it_says(host, server):
    async with connect(host) as shell:
        assert await shell.run("x='a b'\necho \"$x\"\necho other >&2", what="echo", timeout=60) == "a b\n"
        assert shell.host_key == server[1]


async def test_what_is_fed_arrives(host):
    content = bytes(range(256)) * 4096
    async with connect(host) as shell:
        assert (await shell.feed("wc -c", content, what="counting", timeout=60)).strip() == str(len(content))


async def test_a_script_never_is_in_the_process_list(host):
    async with connect(host) as shell:
        shown = await shell.run(
            "password=hunter2; tr '\\0' ' ' < /proc/$$/cmdline", what="looking", timeout=60
        )
    assert shown.strip() == "sh -s"


async def test_failure_shows_the_last_lines(host):
    script = "seq 1 100; echo 'disk full' >&2; exit 3"
    async with connect(host) as shell:
        with pytest.raises(
            RemoteCommandError, match=r"installing k3s on 127\.0\.0\.1 failed with code 3"
        ) as caught:
            await shell.run(script, what="installing k3s", timeout=60)
    assert caught.value.tail.splitlines()[-2:] == ["100", "disk full"]
    assert len(caught.value.tail.splitlines()) == 15


async def test_what_a_server_says_moves_no_cursor_of_the_person_who_reads_it(host):
    script = "printf 'a\\tb\\033[2J\\033]0;title\\007\\302\\233m\\n'; exit 3"
    async with connect(host) as shell:
        with pytest.raises(RemoteCommandError) as caught:
            await shell.run(script, what="installing k3s", timeout=60)
    said = str(caught.value)
    assert said.endswith("a       b\\x1b[2J\\x1b]0;title\\x07\\x9bm")


async def test_a_script_that_hangs_is_left(host):
    async with connect(host) as shell:
        with pytest.raises(RemoteCommandError, match=r"waiting on 127\.0\.0\.1 took more than 0 s"):
            await shell.run("exec sleep 600", what="waiting", timeout=0.2)  # it is to run out


async def test_another_host_key_is_refused_at_once(host):
    other = new_key_pair("")["public_key"]
    moments = iter([0.0, 0.0])  # of the beginning and of one attempt
    with pytest.raises(HostKeyError, match="SSH host key"):
        async with connect(Host(host.address, host.private_key, other), clock=lambda: next(moments)):
            pass


async def test_a_stranger_is_not_let_in(host):
    moments = iter([0.0, 0.0, 180.0])  # of the beginning, of an attempt and of its end
    with pytest.raises(UnreachableError, match="Permission denied"):
        async with connect(
            Host(host.address, new_key_pair("")["private_key"]), timeout=180, clock=lambda: next(moments)
        ):
            pass


async def test_no_server_listens(pair, unused_tcp_port_factory, monkeypatch):
    port, real = unused_tcp_port_factory(), asyncssh.connect
    monkeypatch.setattr(asyncssh, "connect", lambda address, **options: real(address, port, **options))
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1 within 0 s: .*port 22"):
        async with connect(Host("127.0.0.1", pair["private_key"]), timeout=0.3):  # it is to run out
            pass


def test_a_host_does_not_show_its_key(pair):
    assert "PRIVATE" not in repr(Host("127.0.0.1", pair["private_key"]))


async def test_the_first_control_server_that_is_ready_is_asked(host, monkeypatch):
    monkeypatch.setattr("ccm_pulumi.lib.ssh._READY", "true")
    monkeypatch.setattr("ccm_pulumi.lib.ssh._EACH_SECONDS", 0.5)  # for the one that never answers
    dead = dataclasses.replace(host, address="127.0.0.9")
    async with connect_first([dead, host]) as shell:
        assert (await shell.run("echo here", what="w", timeout=60)).strip() == "here"


async def test_when_none_is_ready_in_time_it_says_why(host, monkeypatch):
    monkeypatch.setattr("ccm_pulumi.lib.ssh._READY", "echo 'the API is not there' >&2; exit 1")
    # by this clock the last one has a twentieth of a second left
    clock = itertools.chain([0.0] * 4, itertools.count(19.95, 0.1)).__next__
    dead = dataclasses.replace(host, address="127.0.0.9")
    with pytest.raises(RemoteCommandError, match="the API is not there"):
        async with connect_first([host, dead], timeout=20, clock=clock):
            pass


async def test_no_connection_stays_to_one_that_was_not_ready(host, monkeypatch, tmp_path):
    connected = []
    real = asyncssh.connect

    async def counted(*arguments, **options):
        connected.append(await real(*arguments, **options))
        return connected[-1]

    monkeypatch.setattr(asyncssh, "connect", counted)
    (tmp_path / "not-yet").mkdir()
    monkeypatch.setattr("ccm_pulumi.lib.ssh._READY", f"! rmdir {tmp_path}/not-yet")
    async with connect_first([host, host]) as shell:
        former, last = connected
        assert former.is_closed()
        assert not last.is_closed()
        assert (await shell.run("echo here", what="w", timeout=60)).strip() == "here"
    assert last.is_closed()


async def test_the_only_control_server_is_asked_whatever_its_api_does(host, monkeypatch):
    monkeypatch.setattr("ccm_pulumi.lib.ssh._READY", "false")
    async with connect_first([host]) as shell:
        assert (await shell.run("echo here", what="w", timeout=60)).strip() == "here"
