"""A provider as a plugin of Pulumi: serves its provider protocol.

The messages and what they mean: ``proto/pulumi/provider.proto`` and ``sdk/go/common/resource/plugin`` of
https://github.com/pulumi/pulumi.
"""
# ruff: noqa: ARG002, N802  the methods are the protocol's

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf import empty_pb2

from sandbox.engine.errors import EngineError, PartialError, ResourceNotFoundError
from sandbox.engine.providers.base import Diff, Known, Provider, Read, Surroundings
from sandbox.engine.providers.protocol import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)
from sandbox.engine.providers.wire import from_struct, to_struct
from sandbox.engine.values import Properties, plain, without_internal
from sandbox.peers import TABLES, user_of

PLUGINS = {
    "hcloud": "sandbox.engine.providers.hcloud.provider:HcloudProvider",
    "kubernetes": "sandbox.engine.providers.kubernetes.provider:KubernetesProvider",
}
"""The provider of each plugin."""

_LIMIT = 400 << 20  # bytes of a message; what Pulumi itself allows
_OPTIONS = (("grpc.max_receive_message_length", _LIMIT), ("grpc.max_send_message_length", _LIMIT))
_THREADS = 256  # each waits for one resource
_SHOW_SECONDS = 1.0


class Service(provider_pb2_grpc.ResourceProviderServicer):  # type: ignore[name-defined,misc]
    """Translates between messages and one provider.

    Args:
        make: Makes the provider.
        version: Of the SDK whose resources it serves.
        engine: Address of the engine, which shows what a resource waits for.
    """

    def __init__(self, make: type[Provider], version: str, engine: str) -> None:
        self._make = make
        self._version = version
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine))
        self._provider: Provider | None = None
        self._cancelled = threading.Event()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Settings of the provider."""
        news = from_struct(request.news)
        try:
            self._make.check_config(plain(without_internal(news)), os.environ)
        except EngineError as error:
            return _failures(error)
        return provider_pb2.CheckResponse(inputs=to_struct(news))

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Whether changed settings mean another system, in which everything is to be made again."""
        olds = plain(from_struct(request.old_inputs if request.HasField("old_inputs") else request.olds))
        news = plain(from_struct(request.news))
        keys = [key for key in sorted(olds.keys() | news.keys()) if olds.get(key) != news.get(key)]
        keys = [key for key in keys if key != "version" and not key.startswith("__")]
        return _difference(Diff(bool(keys), self._make.moved(olds, news), keys=keys))

    def Configure(self, request: Any, context: Any) -> Any:
        """Make the provider."""
        around = Surroundings(os.environ, self._show, self._cancelled.is_set)
        config = without_internal(plain(from_struct(request.args)))
        self._provider = self._answer(context, lambda: self._make(config, around))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=self._make.accept_secrets, supportsPreview=True, acceptResources=False
        )

    def Check(self, request: Any, context: Any) -> Any:
        """Inputs of a resource."""
        olds, news = from_struct(request.olds), from_struct(request.news)
        try:
            checked = self._used(context).check(request.urn, olds, news, request.randomSeed)
        except EngineError as error:
            return _failures(error)
        return provider_pb2.CheckResponse(inputs=to_struct(checked))

    def Diff(self, request: Any, context: Any) -> Any:
        """Compare."""
        provider = self._used(context)
        old = _known(request, request.olds, request.old_inputs)
        news = from_struct(request.news)
        # for dependents of what is replaced, Pulumi makes these keys unknown, too
        for key in request.ignoreChanges:
            news = {**news, key: old.inputs[key]} if key in old.inputs else news
        return _difference(self._answer(context, lambda: provider.diff(old, news)))

    def Create(self, request: Any, context: Any) -> Any:
        """Create; a preview knows the inputs."""
        inputs = from_struct(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct(without_internal(inputs)))
        provider = self._used(context)
        made = self._answer(
            context, lambda: provider.create(request.urn, inputs, request.timeout or None), inputs
        )
        return provider_pb2.CreateResponse(id=made.id, properties=to_struct(made.outputs))

    def Read(self, request: Any, context: Any) -> Any:
        """Read, or import."""
        provider = self._used(context)
        old = _known(request, request.properties, request.inputs)
        found = self._answer(context, lambda: _read(provider, old))
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=found.id, inputs=to_struct(found.inputs), properties=to_struct(found.outputs)
        )

    def Update(self, request: Any, context: Any) -> Any:
        """Update, or tell how it would look."""
        provider = self._used(context)
        old, news = _known(request, request.olds, request.old_inputs), from_struct(request.news)
        outputs = self._answer(
            context,
            lambda: (
                provider.preview_update(old, news)
                if request.preview
                else provider.update(old, news, request.timeout or None)
            ),
            news,
        )
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        """Delete."""
        provider = self._used(context)
        old = _known(request, request.properties, request.old_inputs)
        self._answer(context, lambda: provider.delete(old, request.timeout or None))
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        """Ctrl-C: what can be left to the next run is not awaited any more."""
        self._cancelled.set()
        return empty_pb2.Empty()

    def GetSchema(self, request: Any, context: Any) -> Any:
        """There is none: the SDKs' packages come without, and it is for the generation of code alone."""
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "the sandbox's plugin has no schema, from which Pulumi generates code. 'pulumi import' is done "
            "nevertheless; with --generate-code=false it ends without this error",
        )

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """The version."""
        return plugin_pb2.PluginInfo(version=self._version)

    def _show(self, urn: str, text: str) -> None:
        request = engine_pb2.LogRequest(
            severity=engine_pb2.INFO, message=text, urn=urn, streamId=0, ephemeral=True
        )
        with contextlib.suppress(grpc.RpcError):  # only for the eye, and the engine may be ending
            self._engine.Log(request, timeout=_SHOW_SECONDS)

    def _used(self, context: Any) -> Provider:
        if self._provider is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the provider is not configured")
            raise AssertionError("abort raises")
        return self._provider

    @staticmethod
    def _answer(context: Any, work: Callable[[], Any], inputs: Properties | None = None) -> Any:
        """What the work returns; what it refuses becomes a status that the engine understands."""
        try:
            return work()
        except PartialError as error:
            _abort_partial(context, error, inputs or {})
        except EngineError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        raise AssertionError("abort raises")


def _read(provider: Provider, old: Known) -> Read | None:
    try:
        return provider.read(old)
    except ResourceNotFoundError:
        return None


def _known(request: Any, outputs: Any, inputs: Any) -> Known:
    return Known(request.urn, request.id, from_struct(inputs), from_struct(outputs))


def _failures(error: EngineError) -> Any:
    return provider_pb2.CheckResponse(failures=[provider_pb2.CheckFailure(reason=str(error))])


def _difference(diff: Diff) -> Any:
    some = provider_pb2.DiffResponse.DIFF_SOME if diff.changes else provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some,
        replaces=diff.replaces,
        deleteBeforeReplace=diff.delete_before_replace,
        diffs=diff.keys,
    )


def _abort_partial(context: Any, error: PartialError, inputs: Properties) -> None:
    """As ``rpcerror.WithDetails`` of Pulumi's Go SDK: a status whose details say what there is already."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.id, properties=to_struct(error.outputs), reasons=[str(error)], inputs=to_struct(inputs)
    )
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=str(error))
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, str(error))


class _OwnUser(grpc.ServerInterceptor):
    """Refuses calls of other users of this host: Pulumi's protocol has no credentials.

    Attributes:
        port: Of the server.
    """

    port = 0

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Ask the kernel for the user at the other end before each call."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return None  # the protocol's streams are not served

        def guarded(request: Any, context: Any) -> Any:
            _, host, client = context.peer().split(":")
            if TABLES[0].exists() and user_of((host, int(client)), (host, self.port)) != os.geteuid():
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "another user started this plugin")
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            guarded, handler.request_deserializer, handler.response_serializer
        )


def listen(service: Service) -> tuple[grpc.Server, int]:
    """Serve on a free port of loopback, for processes of this user alone.

    Args:
        service: What is served.

    Returns:
        The server, and its port.
    """
    guard = _OwnUser()
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    server = grpc.server(pool, interceptors=[guard], options=_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(service, server)
    guard.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, guard.port


def start(name: str, engine: str) -> tuple[grpc.Server, int]:
    """Serve a plugin to one engine, with settings of its own.

    Args:
        name: One of ``PLUGINS``.
        engine: Address of the engine.

    Returns:
        The server, and its port on 127.0.0.1.
    """
    module, make = PLUGINS[name].split(":")
    return listen(Service(getattr(importlib.import_module(module), make), version(f"pulumi-{name}"), engine))
