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

from sandbox.engine import graph, yaml_v2
from sandbox.engine.changes import Registered
from sandbox.engine.config import Configuration
from sandbox.engine.errors import EngineError, StoppedError, UnsupportedError
from sandbox.engine.goals import Heritage, goal_of, inherit, position
from sandbox.engine.hooks import HookTable
from sandbox.engine.providers.registry import Registry
from sandbox.engine.registration import Registrar
from sandbox.engine.run import Run
from sandbox.engine.steps import Goal
from sandbox.engine.values import Properties, has_unknown, plain
from sandbox.engine.wire import from_struct, to_struct

# Only what is really implemented: secrets, resource references, output values, alias specs,
# replacement trigger, deletedWith, replaceWith, hooks, and invokes with dependencies.
FEATURES = (0, 1, 2, 3, 4, 5, 6, 10, 14, 15)
_NAMES = {
    "secrets": 0,
    "resourceReferences": 1,
    "outputValues": 2,
    "aliasSpecs": 3,
    "deletedWith": 5,
    "resourceHooks": 10,
}
Answer = TypeVar("Answer")


class ResourceMonitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Serves one run.

    Args:
        run: The run.
        registrar: Makes the resources.
        registry: Gives providers.
        hooks: The program's hooks.
        configuration: The stack's configuration.
        root: The project's folder.
        finish: Called when the program has registered everything; deletes what is left over.
    """

    def __init__(  # noqa: PLR0917  one call, in the session
        self,
        run: Run,
        registrar: Registrar,
        registry: Registry,
        hooks: HookTable,
        configuration: Configuration,
        root: Path,
        finish: Callable[[], None],
    ) -> None:
        self._run = run
        self._registrar = registrar
        self._registry = registry
        self._hooks = hooks
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
            supportedFeatures=FEATURES,
        )

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Tell what the engine can do, for SDKs that ask one by one."""
        return resource_pb2.SupportsFeatureResponse(hasSupport=_NAMES.get(request.id, -1) in FEATURES)

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Remember a hook."""
        self._hooks.add(request)
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """The program is through; delete what it no longer has while its hooks can still run."""
        try:
            with self._run.busy():
                self._finish()
        except StoppedError:
            pass
        except EngineError as error:
            self._run.fail(str(error), getattr(error, "urn", ""))
        except Exception as error:  # noqa: BLE001
            self._run.fail_internally(error)
        return empty_pb2.Empty()

    # --- resources

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Make a resource what the program wants."""
        urn = graph.urn_of(self._run.stack, self._run.project, request.type, request.name, request.parent)

        self._heritage[urn] = inherit(request, self._heritage.get(request.parent))

        def register() -> Any:
            goal = goal_of(request, self._run.stack, self._run.project, self._root)
            if goal.remote:
                return self._remote(goal)
            return _response(self._registrar.register(self._with_provider(goal)))

        return self._guard(context, urn, register)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set a component's outputs."""

        def register() -> Any:
            self._registrar.register_outputs(request.urn, from_struct(request.outputs))
            return empty_pb2.Empty()

        return self._guard(context, request.urn, register)

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Read a resource that others manage."""
        urn = graph.urn_of(self._run.stack, self._run.project, request.type, request.name, request.parent)

        def read() -> Any:
            goal = Goal(
                urn=urn,
                type=request.type,
                name=request.name,
                custom=True,
                inputs=from_struct(request.properties),
                parent=request.parent,
                provider=request.provider,
                version=request.version,
                dependencies=tuple(request.dependencies),
                additional_secret_outputs=tuple(request.additionalSecretOutputs),
                source_position=position(request.sourcePosition, self._root),
            )
            found = self._registrar.read(self._with_provider(goal), request.id)
            return resource_pb2.ReadResourceResponse(
                urn=found.urn, id=found.id, properties=to_struct(found.outputs)
            )

        return self._guard(context, urn, read)

    # --- functions

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Call a provider's function."""

        def invoke() -> Any:
            arguments = from_struct(request.args)
            if request.tok == "pulumi:pulumi:getResource":
                return resource_pb2.ResourceInvokeResponse(**{"return": to_struct(self._resource(arguments))})
            reference = request.provider or self._default_provider(
                request.tok.split(":", 1)[0], request.version
            )
            if has_unknown(arguments):
                return resource_pb2.ResourceInvokeResponse(unknown=True)
            answer = self._registry.get(reference).invoke(request.tok, arguments)
            return resource_pb2.ResourceInvokeResponse(**{"return": to_struct(answer)})

        return self._guard(context, "", invoke)

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse methods of remote components."""

        def call() -> NoReturn:
            raise UnsupportedError(f"the method '{request.tok}'")

        return self._guard(context, "", call)

    # --- inside

    def _resource(self, arguments: Properties) -> Properties:
        urn = plain(arguments)["urn"]
        state = self._run.snapshot.news.get(urn)
        if state is None:
            raise EngineError(f"unknown resource '{urn}'")
        return {"urn": urn, "id": state.id, "state": state.outputs}

    def _remote(self, goal: Goal) -> Any:
        if goal.type not in yaml_v2.TYPES:
            raise UnsupportedError(f"the remote component '{goal.type}'")
        provider = (
            goal.provider
            or goal.providers.get("kubernetes")
            or self._default_provider("kubernetes", goal.version)
        )
        outputs = yaml_v2.construct(
            goal, provider, self._registry.get(provider), self._registrar.register, self._root
        )
        state = resource_pb2.RegisterResourceResponse.PropertyDependencies()
        return resource_pb2.RegisterResourceResponse(
            urn=goal.urn, object=to_struct(outputs), propertyDependencies=dict.fromkeys(outputs, state)
        )

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
        try:
            with self._run.busy():
                return work()
        except StoppedError:
            pass
        except EngineError as error:
            self._run.fail(str(error), urn)
        except Exception as error:  # noqa: BLE001  anything else is a bug, and must not hang the program
            self._run.fail_internally(error, urn)
        context.abort(grpc.StatusCode.UNAVAILABLE, "resource monitor shut down")
        raise AssertionError


def _response(made: Registered) -> Any:
    return resource_pb2.RegisterResourceResponse(
        urn=made.urn, id=made.id, object=to_struct(made.outputs), stables=made.stables
    )
