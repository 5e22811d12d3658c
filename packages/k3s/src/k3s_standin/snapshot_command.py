"""``k3s etcd-snapshot``: sends a request to this machine's server, as k3s does."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from k3s_standin import log, paths, snapshots
from k3s_standin.errors import K3sError, UsageError
from k3s_standin.flags import Value
from k3s_standin.options import given_s3, number_of, text_of
from k3s_standin.protocol import SERVER
from k3s_standin.supervisor import Supervisor, SupervisorError
from k3s_standin.token import parse_token

_SECONDS = 120
OPERATIONS = {"save": "save", "ls": "list", "list": "list", "l": "list", "prune": "prune", "delete": "delete"}


def request_of(arguments: Sequence[str], values: Mapping[str, Value]) -> dict[str, Any]:
    """The request to the server; raises UsageError."""
    operation = OPERATIONS.get(arguments[0] if arguments else "")
    if operation is None:
        raise UsageError(f"k3s etcd-snapshot: the first argument must be one of {', '.join(OPERATIONS)}")
    names = list(arguments[1:])
    if operation == "delete" and not names:
        raise UsageError("no snapshots given for removal")
    if operation != "delete" and names:
        raise UsageError("this command does not take any arguments")
    request: dict[str, Any] = {"operation": operation}
    if operation != "list":
        request["name"] = names or [text_of(values, "name", "on-demand")]
    if folder := text_of(values, "etcd-snapshot-dir"):
        request["dir"] = folder
    if "etcd-snapshot-compress" in values:
        request["compress"] = bool(values["etcd-snapshot-compress"])
    if values.get("etcd-s3"):
        request["s3"] = given_s3(values)
    if operation == "save":
        # saving deletes nothing
        request["retention"] = 0
    elif "etcd-snapshot-retention" in values:
        request["retention"] = number_of(values, "etcd-snapshot-retention", "5")
    return request


def run(arguments: Sequence[str], values: Mapping[str, Value]) -> None:
    """Send the request, and report the result."""
    output = text_of(values, "output")
    if output not in {"", "table", "json"}:
        raise UsageError(f"invalid output format: {output}")
    request = request_of(arguments, values)
    answer = json.loads(_asked(text_of(values, "etcd-server", "https://127.0.0.1:6443"), request))
    if request["operation"] == "list":
        print(json.dumps(answer, indent=4) if output == "json" else snapshots.table(answer))
        return
    for name in answer.get("created", ()):
        log.info(f"Snapshot {name} saved.")
    for name in answer.get("deleted", ()):
        log.info(f"Snapshot {name} deleted.")
    if request["operation"] == "delete":
        for name in sorted({*request["name"]} - {*answer["deleted"]}):
            log.warning(f"Snapshot {name} not found.")


def _asked(server: str, request: Mapping[str, Any]) -> bytes:
    file = paths.SERVER / "token"
    try:
        token = parse_token(file.read_text())
    except OSError as error:
        raise UsageError(f"open {file}: {error.strerror}") from None
    supervisor = Supervisor(server, token, SERVER, _SECONDS)
    try:
        with tempfile.NamedTemporaryFile() as authority:
            authority.write(supervisor.authority())
            authority.flush()
            body = json.dumps(request).encode()
            return supervisor.request("POST", snapshots.PATH, Path(authority.name), body)
    except SupervisorError as error:
        # k3s prints the reason without the status
        reason = str(error).removeprefix(f"{error.status}: ")
        raise K3sError(f"Error: see server log for details: {reason}") from error
