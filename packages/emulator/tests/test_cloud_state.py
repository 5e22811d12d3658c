import asyncio
import itertools
import json
import os
import re
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession
from cloud_emulator import TOKEN, Emulator, Gate, Start

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.errors import StateFileError
from hetzner_emulator.models.servers import Server
from hetzner_emulator.resources import discover
from hetzner_emulator.state.store import Store


async def test_the_state_survives_a_restart(start: Start, state_file: Path):
    first = await start(state_file=state_file)
    network = await first.make_network("net", "10.0.0.0/24")
    server = await first.make_server(networks=[network["id"]], labels={"a": "b"})
    before = await first.ok("GET", server.path)
    await first.server.close()
    assert (await asyncio.to_thread(state_file.stat)).st_mode & 0o777 == 0o600
    second = await start(state_file=state_file)
    assert await second.ok("GET", server.path) == before
    assert (await second.make_server("next"))["id"] == server["id"] + 1


async def test_running_actions_are_resumed(start: Start, state_file: Path):
    first = await start(Gate(), state_file=state_file)
    network = await first.make_network("net", "10.0.0.0/24")
    server = await first.make_server(networks=[network["id"]])
    assert server["status"] == "initializing"
    await first.server.close()

    gate = Gate()
    second = await start(gate, state_file=state_file)
    await second.expect("locked", "DELETE", server.path)
    gate.opened.set()
    await second.cloud.actions.settle()
    shown = await second.get(server.path)
    assert (shown["status"], shown["locked"]) == ("running", False)
    assert shown["private_net"][0]["ip"] == "10.0.0.2"
    assert gate.machines == {server["id"]: True}


async def test_a_created_machine_is_started_after_a_restart(start: Start, state_file: Path):
    gate = Gate()
    gate.opened.set()
    gate.power.clear()
    first = await start(gate, state_file=state_file)
    server = await first.make_server()
    assert gate.machines == {server["id"]: False}
    await first.server.close()
    after = Gate()
    second = await start(after, state_file=state_file)
    assert after.machines == {server["id"]: False}, "it is part of the picture"
    after.opened.set()
    await second.cloud.actions.settle()
    assert after.machines == {server["id"]: True}


async def test_unfinished_deletions_are_finished(start: Start, state_file: Path):
    gate = Gate()
    gate.opened.set()
    first = await start(gate, state_file=state_file)
    server = await first.make_server()
    gate.opened.clear()
    action = (await first.ok("DELETE", server.path))["action"]
    assert action["status"] == "running"
    assert (await first.get(server.path))["status"] == "deleting"
    await first.server.close()
    after = Gate()
    after.opened.set()
    second = await start(after, state_file=state_file)
    await second.cloud.actions.settle()
    assert await second.get("/servers") == []
    assert (await second.get(f"/actions/{action['id']}"))["status"] == "success"


class Writers:
    """Clients that write concurrently and store the responses, until the server is killed."""

    def __init__(self, session: ClientSession, base: str, wanted: int) -> None:
        self._session, self._base, self._wanted = session, base, wanted
        self.answered: dict[str, list[Any]] = {}
        self.enough = asyncio.Event()

    async def ask(self, method: str, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self._session.request(method, self._base + path, json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return json.loads(text)

    def note(self, what: str, value: Any) -> None:
        self.answered.setdefault(what, []).append(value)
        if sum(map(len, self.answered.values())) >= self._wanted:
            self.enough.set()

    async def labels(self, server: int) -> None:
        for number in itertools.count():
            await self.ask("PUT", f"/servers/{server}", {"labels": {"n": str(number)}})
            self.note("labels", number)

    async def servers(self) -> None:
        for number in itertools.count():
            body = {"name": f"s{number}", "server_type": "cx23", "image": "debian-12"}
            made = (await self.ask("POST", "/servers", body))["server"]["id"]
            self.note("servers", made)
            if number % 2:
                await self.ask("DELETE", f"/servers/{made}", None)
                self.note("deleted", made)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [1, 37, 150])
async def test_a_killed_process_loses_no_confirmed_change(start: Start, tmp_path: Path, answers: int):
    options = ["--state-dir", str(tmp_path), "--token", TOKEN, "--rate-limit", "0"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hetzner_emulator", "serve", *options), stdout=asyncio.subprocess.PIPE
    )
    try:
        endpoint = re.search(rb"http://[0-9.:]+/v1", await process.stdout.readline())[0].decode()
        writers = Writers((await start()).session, endpoint, answers)
        body = {"name": "first", "server_type": "cx23", "image": "debian-12"}
        server = (await writers.ask("POST", "/servers", body))["server"]["id"]
        work = [writers.labels(server), writers.servers()]
        tasks = [asyncio.create_task(each) for each in work]
        async with asyncio.timeout(60):
            await writers.enough.wait()
    finally:
        os.kill(process.pid, signal.SIGKILL)  # while the writers wait for responses
        await process.communicate()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(error, ClientError) for error in ended), ended
    again = await start(state_file=tmp_path / "cloud.sqlite")
    store, answered = again.cloud.store, writers.answered
    assert set(answered.get("servers", [])) - {s.id for s in store.all(Server)} <= deletions(again)
    assert {s.id for s in store.all(Server)}.isdisjoint(answered.get("deleted", []))
    assert int(store.find(Server, server).labels.get("n", -1)) >= max(answered.get("labels", [-1]))


def deletions(emulator: Emulator) -> set[int]:
    """Servers that a request deleted."""
    actions = emulator.cloud.store.all(Action)
    return {action.resources[0].id for action in actions if action.command == "delete_server"}


def test_records_of_another_version_and_an_invalid_state_file(state_file: Path):
    discover()
    Store(state_file).close()
    with sqlite3.connect(state_file) as database:
        database.execute("INSERT INTO records VALUES ('server', 1, '{\"id\": \"x\"}')")
    database.close()
    for content in ("", "this is not a database, but it is long enough for SQLite" * 20):
        if content:
            state_file.write_text(content)
        with pytest.raises(StateFileError, match=rf"{state_file} .*down --force.* delete the file"):
            Store(state_file)


async def test_a_read_only_state_file(start: Start, state_file: Path):
    emulator = await start(state_file=state_file)
    emulator.cloud.store._database.execute("PRAGMA query_only=ON")
    error = await emulator.refused("POST", "/placement_groups", {"name": "g", "type": "spread"})
    assert error["code"] == "server_error"
    assert str(state_file) in error["message"]
    emulator.cloud.store._database.execute("PRAGMA query_only=OFF")
    await emulator.ok("GET", "/placement_groups")
    await emulator.server.close()
    again = await start(state_file=state_file)
    assert len(await again.get("/placement_groups")) == 1


async def test_a_reset_deletes_everything_and_reuses_no_id(emulator: Emulator):
    server = await emulator.make_server()
    await emulator.ok("POST", "/_sandbox/reset")
    for path in ("servers", "primary_ips"):
        assert (await emulator.ok("GET", f"/{path}"))[path] == []
    assert (await emulator.make_server())["id"] > server["id"]
