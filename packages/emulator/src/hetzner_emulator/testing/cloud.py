"""The emulated cloud for tests, in a separate process that they reach over HTTP.

Frozen clocks, patched modules, mocked HTTP, and event loops of tests don't affect it. Calls block and use
only the standard library.
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
from unittest import mock

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
    """The emulated cloud couldn't start, or refuses a call; the message has the reason."""


class HetznerCloud:
    """An emulated Hetzner Cloud whose servers are records and whose actions are instant."""

    def __init__(self, port: int, operator: str) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self._operator = operator
        # Bypasses a proxy in the environment.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._number = 0
        # the value of `HCLOUD_ENDPOINT`: the address of the API with `/v1`
        self.endpoint = f"{self._root}/v1"
        self.token = ""  # of a new project; changes with each `reset`
        self.faults = Faults(self)
        self._defaults = {
            name: self.settings()[name]
            for name in ("actions", "rate_limit", "limits", "sold_out", "vswitches")
        }
        self.reset()

    def __repr__(self) -> str:
        """Show the address without the token, because failed tests print it."""
        return f"HetznerCloud({self.endpoint!r})"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of Hetzner's clients, for processes of a test."""
        return client_variables(self.endpoint, self.token)

    def client(self, **options: Any) -> hcloud.Client:
        """Hetzner's own client for Python, with this cloud's address and token."""
        import hcloud  # noqa: PLC0415  tests can use another client

        # Actions have ended by the first poll.
        both = {"api_endpoint": self.endpoint, "api_endpoint_hetzner": self.endpoint}
        options = {"token": self.token, **both, "poll_interval": 0.05, **options}
        return hcloud.Client(**options)

    @property
    def requests(self) -> list[Request]:
        """The requests to the API since the last ``reset``, with any token, the oldest first."""
        answer = self.admin("GET", f"/requests?limit={_MOST_REQUESTS}")
        return [Request(**entry) for entry in reversed(answer["requests"])]

    def settings(self, **changed: Any) -> Mapping[str, Any]:
        """Change settings until the next ``reset``; returns all settings. Raises CloudError.

        They are ``actions``, ``rate_limit``, ``rate_limit_remaining``, ``limits``, ``sold_out``,
        ``vswitches``.
        """
        return self.admin("PUT", "/settings", changed) if changed else self.admin("GET", "/settings")

    def reset(self) -> None:
        """Delete objects, faults, and requests, restore the settings, and create a project and token.

        Earlier tokens become invalid, so that clients of earlier tests can't change anything.
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
        """Send an admin call of docs/reference/sandbox-admin-api.md; returns the JSON of the response.

        The path is below ``/_sandbox``. Raises CloudError: the call failed, or the process has ended.
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
    """Fault rules; the first that applies to a request wins."""

    def __init__(self, cloud: HetznerCloud) -> None:
        self._cloud = cloud

    def add(self, **rule: Any) -> int:
        """Add a rule until its removal or the next ``reset``; returns its ID. Raises CloudError.

        Such as ``method="POST", path="/servers", code="locked", times=1``; all fields are in
        docs/reference/sandbox-admin-api.md.
        """
        return self._cloud.admin("POST", "/faults", rule)["id"]

    def remove(self, identity: int) -> None:
        """Remove a rule; raises CloudError without one of this ID."""
        self._cloud.admin("DELETE", f"/faults/{identity}")

    def clear(self) -> None:
        """Remove all rules."""
        self._cloud.admin("DELETE", "/faults")

    def expect_struck(self) -> None:
        """Raise CloudError if a rule applied to no request, for example because its path is mistyped."""
        if idle := [rule for rule in self.listing() if not rule["hits"]]:
            shown = {key: value for key, value in idle[0].items() if value and key not in ("id", "seen")}
            raise CloudError(
                f"fault rule {idle[0]['id']} ({idle[0]['seen']} matching requests) caused no fault: {shown}"
            )

    def listing(self) -> list[dict[str, Any]]:
        """The rules, with the number of requests that matched (``seen``) and failed (``hits``)."""
        return self._cloud.admin("GET", "/faults")["faults"]


@contextmanager
def running() -> Iterator[HetznerCloud]:
    """An emulated cloud until the end of a block, for fixtures with another scope; raises CloudError.

    If the environment has a proxy, ``NO_PROXY`` makes clients of this process and its children bypass it.
    """
    operator = tokens.new()
    # -P: the process must not import modules of the working directory.
    command = [sys.executable, "-P", "-m", "hetzner_emulator.testing.process"]
    with (
        mock.patch.dict(os.environ, past_proxies(os.environ)),
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            start_new_session=True,  # fixtures use the cloud after Ctrl-C
        ) as process,
    ):
        try:
            yield HetznerCloud(_started(process, operator, printed), operator)
        finally:
            process.kill()  # it has no state to save


def _started(process: subprocess.Popen[bytes], operator: str, printed: IO[bytes]) -> int:
    """The port of the process, which reads its token from a pipe, and ends when the pipe ends."""
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
    """The message of an error response, with the invalid fields."""
    try:
        error = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")[:_TAIL]
    fields = (error.get("details") or {}).get("fields") or []
    if len(fields) < 2:  # the message has the reason
        return error["message"]
    return "; ".join(f"{field['name']}: {', '.join(field['messages'])}" for field in fields)
