"""The emulated cloud as tests work with it: a process of its own, spoken to over HTTP alone.

So nothing that a test does to its own process reaches the cloud: frozen clocks, patched modules, mocked HTTP,
event loops. Calls here block and use the standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from hetzner_emulator import tokens
from hetzner_emulator.address import client_variables, past_proxies
from hetzner_emulator.traffic.requests import Request

if TYPE_CHECKING:
    import hcloud

START_SECONDS = 60.0
CALL_SECONDS = 30.0
_MOST_REQUESTS = 50_000
_TAIL = 4000


class CloudError(Exception):
    """The emulated cloud could not be started, or refuses what a test asks of it; its text says why."""


class HetznerCloud:
    """An emulated Hetzner Cloud whose servers are records and whose actions are instant.

    Attributes:
        endpoint: What goes into ``HCLOUD_ENDPOINT``: the address of the API, ``/v1`` included.
        token: Of a project that nobody else has; another one after each ``reset``.
        faults: What goes wrong.

    Args:
        port: Of the process, on 127.0.0.1.
        operator: The token that the process was started with.
    """

    def __init__(self, port: int, operator: str) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self._operator = operator
        # Tests may run where a proxy is set for everybody else.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._number = 0
        self.endpoint = f"{self._root}/v1"
        self.token = ""
        self.faults = Faults(self)
        self._defaults = {
            name: self.settings()[name]
            for name in ("actions", "rate_limit", "limits", "sold_out", "vswitches")
        }
        self.reset()

    def __repr__(self) -> str:
        """What a failed test shows of it: the address, without the token."""
        return f"HetznerCloud({self.endpoint!r})"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which most clients find the cloud, for a process that a test starts."""
        return client_variables(self.endpoint, self.token)

    def client(self, **options: Any) -> hcloud.Client:
        """Hetzner's own client for Python, with this cloud's address and token.

        Args:
            options: Further arguments of ``hcloud.Client``.
        """
        import hcloud  # noqa: PLC0415  tests may use another client

        # Actions have ended when they are asked for.
        both = {"api_endpoint": self.endpoint, "api_endpoint_hetzner": self.endpoint}
        return hcloud.Client(**{"token": self.token, **both, "poll_interval": 0.05, **options})

    @property
    def requests(self) -> list[Request]:
        """The requests to the API since the last ``reset``, with whatever token, the oldest first."""
        answer = self.admin("GET", f"/requests?limit={_MOST_REQUESTS}")
        return [Request(**entry) for entry in reversed(answer["requests"])]

    def settings(self, **changed: Any) -> Mapping[str, Any]:
        """Change settings until the next ``reset``; returns all.

        Args:
            changed: ``actions``, ``rate_limit``, ``rate_limit_remaining``, ``limits``, ``sold_out``,
                ``vswitches``.

        Raises:
            CloudError: There is no such setting, or it doesn't take the value.
        """
        return self.admin("PUT", "/settings", changed) if changed else self.admin("GET", "/settings")

    def reset(self) -> None:
        """Begin afresh: no objects, no faults, no requests, the first settings, another project and token.

        Earlier tokens are refused from now on, so what an earlier test has left running changes nothing.
        """
        if self.token:
            self.admin("DELETE", "/tokens", {"token": self.token})
        self.admin("POST", "/reset")
        self.faults.clear()
        self.settings(**self._defaults)
        self._number += 1
        self.token = tokens.new()
        self.admin("PUT", "/tokens", {"token": self.token, "project": f"test-{self._number}"})
        self.admin("DELETE", "/requests")

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """One of the admin calls, docs/reference/sandbox-admin-api.md; returns the JSON of its answer.

        Args:
            method: Of HTTP.
            path: Below ``/_sandbox``, with its query.
            body: Sent as JSON.

        Raises:
            CloudError: It is refused, or the process has ended.
        """
        request = urllib.request.Request(  # noqa: S310  our own address
            f"{self._root}/_sandbox{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._operator}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise CloudError(_refusal(error.read())) from None
        except OSError as error:
            raise CloudError(f"the emulated cloud at {self._root} doesn't answer: {error}") from error


class Faults:
    """Rules of what goes wrong; the first that strikes a request wins."""

    def __init__(self, cloud: HetznerCloud) -> None:
        self._cloud = cloud

    def add(self, **rule: Any) -> int:
        """Put a rule in force until it is removed, or the next ``reset``; returns its id.

        Args:
            rule: Such as ``method="POST", path="/servers", code="locked", times=1``; all fields are in
                docs/reference/sandbox-admin-api.md.

        Raises:
            CloudError: There is no such field, or it doesn't take the value; names what is allowed.
        """
        return self._cloud.admin("POST", "/faults", rule)["id"]

    def remove(self, identity: int) -> None:
        """Lift one rule.

        Raises:
            CloudError: There is no such rule.
        """
        self._cloud.admin("DELETE", f"/faults/{identity}")

    def clear(self) -> None:
        """Lift all rules."""
        self._cloud.admin("DELETE", "/faults")

    def expect_struck(self) -> None:
        """Make sure that every rule in force has struck: one with a mistyped path never does.

        Raises:
            CloudError: One has not; names it.
        """
        if idle := [rule for rule in self.listing() if not rule["hits"]]:
            told = {key: value for key, value in idle[0].items() if value and key not in ("id", "seen")}
            raise CloudError(
                f"fault rule {idle[0]['id']} never struck ({idle[0]['seen']} requests matched it): {told}"
            )

    def listing(self) -> list[dict[str, Any]]:
        """The rules in force, with how often each matched (``seen``) and struck (``hits``)."""
        return self._cloud.admin("GET", "/faults")["faults"]


@contextmanager
def running() -> Iterator[HetznerCloud]:
    """An emulated cloud for as long as a block runs, for fixtures of another scope than a test.

    Where a proxy is set, ``NO_PROXY`` leads clients of this process and its children past it meanwhile.

    Raises:
        CloudError: Its process could not be started; carries what that printed.
    """
    operator = tokens.new()
    # -P: what lies in the folder that tests are run from is not to be imported there.
    command = [sys.executable, "-P", "-m", "hetzner_emulator.testing.process"]
    with (
        _environment(past_proxies(os.environ)),
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            start_new_session=True,  # Ctrl-C is for pytest, whose fixtures still use the cloud then
        ) as process,
    ):
        try:
            yield HetznerCloud(_started(process, operator, printed), operator)
        finally:
            process.kill()  # it keeps nothing


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _started(process: subprocess.Popen[bytes], operator: str, printed: IO[bytes]) -> int:
    """The port of the process once it answers. It gets its token by a pipe, which also ends it with us."""
    assert process.stdin
    assert process.stdout
    too_late = threading.Timer(START_SECONDS, process.kill)
    too_late.start()
    try:
        process.stdin.write(json.dumps({"token": operator}).encode() + b"\n")
        process.stdin.flush()
        return int(json.loads(process.stdout.readline())["port"])
    except (OSError, ValueError) as error:
        process.kill()
        process.wait(START_SECONDS)
        printed.seek(0)
        said = printed.read().decode(errors="replace").strip()[-_TAIL:]
        raise CloudError(f"the emulated cloud could not be started: {said or error}") from error
    finally:
        too_late.cancel()


def _refusal(answer: bytes) -> str:
    """What an answer that refuses says, with the fields that are wrong."""
    try:
        error = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")[:_TAIL]
    fields = (error.get("details") or {}).get("fields") or []
    if len(fields) < 2:  # the message has it
        return error["message"]
    return "; ".join(f"{field['name']}: {', '.join(field['messages'])}" for field in fields)
