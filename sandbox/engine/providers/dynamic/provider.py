"""Dynamic providers: classes of the program, run by the SDK's own provider server in a process of its own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from sandbox.engine import children
from sandbox.engine.errors import ProviderError, ResourceNotFoundError
from sandbox.engine.properties.values import Properties, changed_keys, plain
from sandbox.engine.properties.wire import from_struct, to_struct
from sandbox.engine.providers.base import ConfiguredProvider, Created, Diff, Read, Request
from sandbox.engine.providers.surroundings import Surroundings
from sandbox.engine.state.resource import Resource

MESSAGE_LIMIT = 400 << 20  # what the SDK itself allows
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
)
_SERVER = "sandbox.engine.providers.dynamic.server"
_UNKNOWN, _NONE = 0, 1  # DiffResponse.changes


class DynamicProvider(ConfiguredProvider):
    """Speaks Pulumi's provider protocol to ``python -m pulumi.dynamic``.

    Args:
        inputs: All configuration of the stack.
        around: Where it runs.
    """

    def __init__(self, inputs: Properties, around: Surroundings) -> None:
        environment = {**around.environment, "PULUMI_PROJECT": around.project, "PULUMI_STACK": around.stack}
        self._process = children.start(_SERVER, around.program, environment)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._port()}", options=OPTIONS)
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        children.relay(self._process, lambda line: around.listener.diagnostic("info", line.rstrip()))
        variables = {key: _text(value) for key, value in plain(inputs).items()}
        self._call(
            self._stub.Configure,
            provider_pb2.ConfigureRequest(args=to_struct(inputs), variables=variables, acceptSecrets=True),
        )

    def check(self, urn: str, kind: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Let the program's class check its inputs."""
        request = provider_pb2.CheckRequest(
            urn=urn,
            type=kind,
            olds=to_struct(_present(olds)),
            news=to_struct(_present(news)),
            randomSeed=seed,
        )
        response = self._call(self._stub.Check, request)
        if response.failures:
            reasons = [f"{item.property or 'resource'}: {item.reason}" for item in response.failures]
            raise ProviderError("; ".join(reasons))
        return from_struct(response.inputs)

    def diff(self, old: Resource, news: Properties) -> Diff:
        """Let the program's class compare; where it does not know, inputs are compared."""
        response = self._call(self._stub.Diff, provider_pb2.DiffRequest(**_change(old, news)))
        keys = changed_keys(old.inputs, news)
        changes = bool(keys) if response.changes == _UNKNOWN else response.changes != _NONE
        return Diff(
            changes=changes or bool(response.replaces),
            replaces=list(response.replaces),
            delete_before_replace=response.deleteBeforeReplace,
            keys=keys or list(response.replaces) or (["__provider"] if changes else []),
        )

    def create(self, request: Request) -> Created:
        """Create."""
        message = provider_pb2.CreateRequest(
            urn=request.urn,
            type=request.type,
            properties=_plain_struct(request.inputs),
            timeout=request.timeout or 0,
        )
        response = self._call(self._stub.Create, message, request.timeout)
        return Created(response.id, from_struct(response.properties))

    def update(self, old: Resource, news: Properties, timeout: float | None) -> Properties:
        """Update."""
        request = provider_pb2.UpdateRequest(**_change(old, news), timeout=timeout or 0)
        return from_struct(self._call(self._stub.Update, request, timeout).properties)

    def delete(self, old: Resource, timeout: float | None) -> None:
        """Delete."""
        request = provider_pb2.DeleteRequest(
            **_known(old),
            properties=_plain_struct(old.outputs),
            old_inputs=_plain_struct(old.inputs),
            timeout=timeout or 0,
        )
        self._call(self._stub.Delete, request, timeout)

    def read(self, old: Resource) -> Read:
        """Read; a class without ``read`` answers what the state has."""
        request = provider_pb2.ReadRequest(
            **_known(old), properties=_plain_struct(old.outputs), inputs=_plain_struct(old.inputs)
        )
        response = self._call(self._stub.Read, request)
        if not response.id:
            raise ResourceNotFoundError(f"'{old.id}' no longer exists")
        inputs = from_struct(response.inputs) if response.HasField("inputs") else plain(old.inputs)
        return Read(response.id, inputs, from_struct(response.properties))

    def close(self) -> None:
        """End the server."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _port(self) -> int:
        lines = []
        for line in self._process.stdout or ():
            if line.strip().isdecimal():
                return int(line)
            lines.append(line.rstrip())
        raise ProviderError("the server of the dynamic providers did not start: " + " | ".join(lines[-5:]))

    def _call(self, method: Any, request: Any, timeout: float | None = None) -> Any:
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise ProviderError(_reason(error, timeout, self._process)) from error


def _known(old: Resource) -> dict[str, str]:
    return {"id": old.id, "urn": old.urn, "type": old.type}


def _change(old: Resource, news: Properties) -> dict[str, Any]:
    inputs = _plain_struct(old.inputs)
    return {
        **_known(old),
        "olds": _plain_struct(old.outputs),
        "news": _plain_struct(news),
        "old_inputs": inputs,
    }


def _plain_struct(tree: Properties) -> Any:
    return to_struct(_present(plain(tree)))


def _present(tree: Properties) -> Properties:
    """Without top-level None: the SDK's server would take them for values."""
    return {key: value for key, value in tree.items() if value is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _reason(error: grpc.RpcError, timeout: float | None, process: subprocess.Popen[str]) -> str:
    code, details = error.code(), (error.details() or "").strip()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the dynamic provider did not finish within its custom timeout of {timeout:g} s"
    if code == grpc.StatusCode.UNAVAILABLE:
        status = process.poll()
        return (
            f"the server of the dynamic providers ended (exit status {status})"
            if status is not None
            else details
        )
    return exception_text(details)


def exception_text(traceback: str) -> str:
    """The exception in a formatted traceback, all lines of its message, without the stack."""
    lines = traceback.splitlines()
    if not any(line.startswith("Traceback (most recent call last)") for line in lines):
        return traceback
    stack_lines = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    for number in range(stack_lines[-1] + 1 if stack_lines else 0, len(lines)):
        if lines[number] and not lines[number].startswith(" "):
            return "\n".join(lines[number:])
    return traceback
