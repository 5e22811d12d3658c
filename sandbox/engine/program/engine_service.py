"""Pulumi's Engine protocol: the program's log and root resource."""

from __future__ import annotations

from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from sandbox.engine.deployment.run import Run

_SEVERITIES = ("debug", "info", "warning", "error")


class EngineService(engine_pb2_grpc.EngineServicer):
    """Serves one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._root = ""

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Show a message; an error fails the run."""
        severity = _SEVERITIES[request.severity]
        if severity == "error":
            self._run.fail(request.message, request.urn)
        else:
            self._run.listener.diagnostic(severity, request.message, request.urn)
        return empty_pb2.Empty()

    def SetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Remember the stack's URN."""
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def GetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Tell the stack's URN."""
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def RequirePulumiVersion(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Accept every version: the engine grows with the SDK that is installed beside it."""
        return engine_pb2.RequirePulumiVersionResponse()
