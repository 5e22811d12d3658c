"""Pulumi's ResourceMonitor protocol: what the program calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import resource_pb2, resource_pb2_grpc

from sandbox.engine.deployment.changes import Registered
from sandbox.engine.deployment.registration import Registrar
from sandbox.engine.deployment.run import Run
from sandbox.engine.deployment.steps import Goal
from sandbox.engine.errors import UnsupportedError
from sandbox.engine.program.goals import Heritage, goal_of, inherit
from sandbox.engine.projects.config import Configuration
from sandbox.engine.properties.wire import from_struct, to_struct
from sandbox.engine.providers.registry import Registry
from sandbox.engine.state import graph

# What is really implemented; for everything else the SDK itself says that it is missing.
_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_OUTPUT_VALUES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
)
Answer = TypeVar("Answer")


class ResourceMonitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Serves one run.

    Args:
        run: The run.
        registrar: Makes the resources.
        registry: Gives providers.
        configuration: The stack's configuration.
        root: The project's folder.
        finish: Called when the program has registered everything; deletes what is left over.
    """

    def __init__(  # noqa: PLR0917  one call, in the session
        self,
        run: Run,
        registrar: Registrar,
        registry: Registry,
        configuration: Configuration,
        root: Path,
        finish: Callable[[], None],
    ) -> None:
        self._run = run
        self._registrar = registrar
        self._registry = registry
        self._configuration = configuration
        self._root = root
        self._finish = finish
        self._defaults: dict[str, str] = {}
        self._heritage: dict[str, Heritage] = {}
        self._default_lock = threading.Lock()

    # --- what the run is

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Tell the program where it runs."""
        return resource_pb2.DeploymentInfo(
            project=self._run.project,
            stack=self._run.stack,
            organization="organization",
            config=dict(self._configuration.values),
            configSecretKeys=list(self._configuration.secret_keys),
            dryRun=self._run.preview,
            parallel=self._run.parallel,
            supportedFeatures=_FEATURES,
        )

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """The program is through; delete what it no longer has."""
        with self._run.busy():
            self._run.guarded(self._finish)
        return empty_pb2.Empty()

    # --- resources

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Make a resource what the program wants."""
        urn = graph.urn_of(self._run.stack, self._run.project, request.type, request.name, request.parent)

        self._heritage[urn] = inherit(request, self._heritage.get(request.parent))

        def register() -> Any:
            goal = goal_of(request, self._run.stack, self._run.project, self._root)
            return _response(self._registrar.register(self._with_provider(goal)))

        return self._guard(context, urn, register)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set a component's outputs."""

        def register() -> Any:
            self._registrar.register_outputs(request.urn, from_struct(request.outputs))
            return empty_pb2.Empty()

        return self._guard(context, request.urn, register)

    # --- what only the genuine engine has

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse to read what others manage."""
        return self._refuse(context, f"reading the resource '{request.name}' of others (get)")

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse functions of providers."""
        return self._refuse(context, f"the function '{request.tok}'")

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse methods of remote components."""
        return self._refuse(context, f"the method '{request.tok}'")

    # --- inside

    def _refuse(self, context: Any, what: str) -> Any:
        def work() -> NoReturn:
            raise UnsupportedError(what)

        return self._guard(context, "", work)

    def _with_provider(self, goal: Goal) -> Goal:
        if not goal.custom:
            return goal
        if goal.type.startswith("pulumi:providers:"):
            inputs = goal.inputs | ({"version": goal.version} if goal.version else {})
            return replace(goal, inputs=inputs)
        if goal.provider:
            return goal
        return replace(goal, provider=self._default_provider(goal.type.split(":", 1)[0], goal.version))

    def _default_provider(self, package: str, version: str) -> str:
        suffix = "_" + version.replace(".", "_").replace("-", "_").replace("+", "_") if version else ""
        kind = f"pulumi:providers:{package}"
        urn = graph.urn_of(self._run.stack, self._run.project, kind, f"default{suffix}")
        with self._default_lock:
            if urn not in self._defaults:
                inputs = self._registry.default_inputs(package, version)
                goal = Goal(urn=urn, type=kind, name=f"default{suffix}", custom=True, inputs=inputs)
                made = self._registrar.register(goal)
                self._defaults[urn] = f"{urn}::{self._run.snapshot.news[made.urn].id}"
            return self._defaults[urn]

    def _guard(self, context: Any, urn: str, work: Callable[[], Answer]) -> Answer:
        """Run a handler; a failure is told once and ends the program."""
        answers: list[Answer] = []
        with self._run.busy():
            self._run.guarded(lambda: answers.append(work()), urn)
        if not answers:
            context.abort(grpc.StatusCode.UNAVAILABLE, "resource monitor shut down")
        return answers[0]


def _response(made: Registered) -> Any:
    return resource_pb2.RegisterResourceResponse(urn=made.urn, id=made.id, object=to_struct(made.outputs))
