"""Servers that are off when ``./dev up`` begins: started if they failed to start, else told.

Without this, the program would wait minutes for SSH to a server that nobody is going to start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from sandbox.api import PAGE, Api
from sandbox.errors import CloudError, SandboxError

# Commands of the API's actions, docs.hetzner.cloud: which of them leave a server on, which off.
STARTS = frozenset({"create_server", "start_server", "reset_server", "reboot_server", "rebuild_server"})
STOPS = frozenset({"stop_server", "shutdown_server"})
OURS = "managed-by=ccm-from-scratch"
"""The label that the Pulumi program puts on its servers."""

START_SECONDS = 60
POLL_SECONDS = 0.2


def start_failed(actions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a server is off because it could not be started, not because somebody wanted it off.

    Args:
        actions: Of the server as the API lists them, the newest first.
    """
    for action in actions:
        if action["command"] in STOPS and action["status"] == "success":
            return False
        if action["command"] in STARTS:
            return action["status"] == "error"
    return False


def ensure_on(api: Api, say: Callable[[str], None]) -> None:
    """Start the environment's servers that failed to start.

    Args:
        api: The cloud of this clone.
        say: Told what is started.

    Raises:
        SandboxError: One does not start, or somebody has powered one off.
    """
    try:
        # What a person made beside the environment is not our business.
        servers = list(api.list("servers", label_selector=OURS, status="off"))
    except CloudError as error:
        # Injected faults, an exhausted limit: the program tries such calls again.
        say(f"• whether servers are off could not be asked ({error}); going on")
        return
    stopped = []
    for server in servers:
        newest = urlencode({"sort": "id:desc", "per_page": PAGE})
        if start_failed(api.call("GET", f"/servers/{server['id']}/actions?{newest}")["actions"]):
            say(f"• server {server['name']} failed to start; trying again")
            _start(api, server)
        else:
            stopped.append(server)
    if stopped:
        names = ", ".join(server["name"] for server in stopped)
        raise SandboxError(
            f"powered off, and left so: {names}. Nothing can be installed on a server that is off, and its "
            "node never gets Ready. Power it on or delete it, then './dev up': "
            'eval "$(./dev env)"; curl -X POST -H "Authorization: Bearer $HCLOUD_TOKEN" '
            f'"$HCLOUD_ENDPOINT/servers/{stopped[0]["id"]}/actions/poweron"'
        )


def _start(api: Api, server: Mapping[str, Any]) -> None:
    action = api.call("POST", f"/servers/{server['id']}/actions/poweron")["action"]
    deadline = time.monotonic() + START_SECONDS
    while action["status"] == "running" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        action = api.call("GET", f"/actions/{action['id']}")["action"]
    if action["status"] != "success":
        reason = (action["error"] or {}).get("message", f"no end after {START_SECONDS} s")
        raise SandboxError(f"server {server['name']} is off, and does not start: {reason}")
