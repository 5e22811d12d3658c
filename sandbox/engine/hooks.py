"""Resource hooks: functions of the program that the engine calls around an operation."""

from __future__ import annotations

import grpc
from pulumi.runtime.proto import callback_pb2, callback_pb2_grpc, resource_pb2

from sandbox.engine.errors import ResourceError
from sandbox.engine.resource import Resource
from sandbox.engine.wire import to_struct


class HookTable:
    """The hooks that the program has registered, by name."""

    def __init__(self, *, preview: bool) -> None:
        self._hooks: dict[str, resource_pb2.RegisterResourceHookRequest] = {}
        self._preview = preview

    def add(self, hook: resource_pb2.RegisterResourceHookRequest) -> None:
        """Remember a hook."""
        self._hooks[hook.name] = hook

    def run(self, when: str, resource: Resource, old: Resource | None = None) -> None:
        """Run a resource's hooks of one kind (`BeforeCreate` … `AfterDelete`).

        Args:
            when: The kind.
            resource: What is made or changed, or what goes.
            old: What an update starts from.

        Raises:
            ResourceError: A hook failed, or the program no longer registers it.
        """
        for name in resource.resource_hooks.get(when, ()):
            hook = self._hooks.get(name)
            if hook is None:
                raise ResourceError(
                    resource.urn, f"the hook '{name}' is not registered; resources with delete hooks are "
                    "deleted by a program that still registers the hook"
                )  # fmt: skip
            if self._preview and not hook.on_dry_run:
                continue
            self._call(hook, when, resource, old)

    @staticmethod
    def _call(
        hook: resource_pb2.RegisterResourceHookRequest, when: str, resource: Resource, old: Resource | None
    ) -> None:
        request = resource_pb2.ResourceHookRequest(
            urn=resource.urn, id=resource.id, name=resource.name, type=resource.type
        )
        before = resource if when.endswith("Delete") else old
        if before is not None:
            request.old_inputs.CopyFrom(to_struct(before.inputs))
            request.old_outputs.CopyFrom(to_struct(before.outputs))
        if not when.endswith("Delete"):
            request.new_inputs.CopyFrom(to_struct(resource.inputs))
        if when in ("AfterCreate", "AfterUpdate"):
            request.new_outputs.CopyFrom(to_struct(resource.outputs))
        with grpc.insecure_channel(hook.callback.target) as channel:
            answer = callback_pb2_grpc.CallbacksStub(channel).Invoke(
                callback_pb2.CallbackInvokeRequest(
                    token=hook.callback.token, request=request.SerializeToString()
                )
            )
        response = resource_pb2.ResourceHookResponse()
        response.ParseFromString(answer.response)
        if response.error:
            raise ResourceError(resource.urn, f"hook '{hook.name}' failed: {response.error}")
