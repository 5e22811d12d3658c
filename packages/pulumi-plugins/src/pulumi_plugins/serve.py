"""A provider as a plugin of Pulumi: serves its provider protocol.

The messages: ``proto/pulumi/provider.proto`` and ``sdk/go/common/resource/plugin`` of
https://github.com/pulumi/pulumi.
"""
# ruff: noqa: ARG002, D102, N802  the methods are the protocol's

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)

from ccmfs_common.peers import TABLES, user_of
from pulumi_plugins.base import Diff, Known, Provider, Surroundings
from pulumi_plugins.errors import PartialError, ProviderError, ResourceNotFoundError
from pulumi_plugins.values import OUTPUT, SIGNATURE, UNKNOWN, Properties, plain, secret, without_internal

PLUGINS = {
    "hcloud": "pulumi_plugins.hcloud.provider:HcloudProvider",
    "kubernetes": "pulumi_plugins.kubernetes.provider:KubernetesProvider",
}
"""The provider of each plugin."""

_LIMIT = 400 << 20  # bytes of a message; Pulumi's own limit
_OPTIONS = (("grpc.max_receive_message_length", _LIMIT), ("grpc.max_send_message_length", _LIMIT))
_THREADS = 256  # each waits for one resource
_SHOW_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_EXACT_INTEGERS = 2**53  # doubles represent every integer below this


def from_value(value: struct_pb2.Value) -> Any:
    """One protobuf value as Python; whole numbers become int."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [from_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < _EXACT_INTEGERS else number
    if kind in (None, "null_value"):
        return None
    return getattr(value, kind)


def from_struct(struct: struct_pb2.Struct) -> Properties:
    """A Struct as property tree with sorted keys; output values become plain, secret or unknown values."""
    tree = {key: from_value(struct.fields[key]) for key in sorted(struct.fields)}
    if tree.get(SIGNATURE) != OUTPUT:
        return tree
    value = tree.get("value", UNKNOWN)
    return secret(value) if tree.get("secret") else value


def to_struct(tree: Properties | None) -> struct_pb2.Struct:
    """A property tree as Struct."""
    struct = struct_pb2.Struct()
    struct.update(tree or {})
    return struct


class Service(provider_pb2_grpc.ResourceProviderServicer):  # type: ignore[name-defined,misc]
    """Translates between messages and one provider; ``_Calls`` translates its errors."""

    def __init__(self, make: type[Provider], version: str, engine: str) -> None:
        self._make = make
        self._version = version
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine))
        self._provider: Provider | None = None
        self._cancelled = threading.Event()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        news = from_struct(request.news)
        try:
            self._make.check_config(plain(without_internal(news)), os.environ)
        except ProviderError as error:
            return _failures(error)
        return provider_pb2.CheckResponse(inputs=to_struct(news))

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Whether changed settings mean another system, so that everything is created again."""
        olds = plain(from_struct(request.old_inputs if request.HasField("old_inputs") else request.olds))
        news = plain(from_struct(request.news))
        keys = [key for key in sorted(olds.keys() | news.keys()) if olds.get(key) != news.get(key)]
        keys = [key for key in keys if key != "version" and not key.startswith("__")]
        return _difference(Diff(keys, self._make.moved(olds, news)))

    def Configure(self, request: Any, context: Any) -> Any:
        around = Surroundings(os.environ, self._show, self._cancelled.is_set)
        self._provider = self._make(without_internal(plain(from_struct(request.args))), around)
        return provider_pb2.ConfigureResponse(
            acceptSecrets=self._make.accept_secrets, supportsPreview=True, acceptResources=False
        )

    def Check(self, request: Any, context: Any) -> Any:
        olds, news = from_struct(request.olds), from_struct(request.news)
        provider = self._used()
        try:
            checked = provider.check(request.urn, olds, news, request.randomSeed)
        except ProviderError as error:
            return _failures(error)
        return provider_pb2.CheckResponse(inputs=to_struct(checked))

    def Diff(self, request: Any, context: Any) -> Any:
        old = _known(request, request.olds, request.old_inputs)
        news = from_struct(request.news)
        # for dependents of a replaced resource, Pulumi makes these keys unknown, too
        for key in request.ignoreChanges:
            news = {**news, key: old.inputs[key]} if key in old.inputs else news
        return _difference(self._used().diff(old, news))

    def Create(self, request: Any, context: Any) -> Any:
        inputs = from_struct(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct(without_internal(inputs)))
        made = self._used().create(request.urn, inputs, request.timeout or None)
        return provider_pb2.CreateResponse(id=made.id, properties=to_struct(made.outputs))

    def Read(self, request: Any, context: Any) -> Any:
        try:
            found = self._used().read(_known(request, request.properties, request.inputs))
        except ResourceNotFoundError:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=found.id, inputs=to_struct(found.inputs), properties=to_struct(found.outputs)
        )

    def Update(self, request: Any, context: Any) -> Any:
        old, news = _known(request, request.olds, request.old_inputs), from_struct(request.news)
        if request.preview:
            outputs = self._used().preview_update(old, news)
        else:
            outputs = self._used().update(old, news, request.timeout or None)
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        old = _known(request, request.properties, request.old_inputs)
        self._used().delete(old, request.timeout or None)
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        """Ctrl-C: don't wait any longer for anything that the next run can complete."""
        self._cancelled.set()
        return empty_pb2.Empty()

    def GetSchema(self, request: Any, context: Any) -> Any:
        """Not supported: the SDKs' packages lack it, and only code generation uses it."""
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "Pulumi imported the resource, but can't generate code for it, because the sandbox's plugin has "
            "no schema. To avoid this error, run 'pulumi import' with --generate-code=false",
        )

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    def _show(self, urn: str, text: str) -> None:
        request = engine_pb2.LogRequest(
            severity=engine_pb2.INFO, message=text, urn=urn, streamId=0, ephemeral=True
        )
        with contextlib.suppress(grpc.RpcError):  # the engine may be ending
            self._engine.Log(request, timeout=_SHOW_SECONDS)

    def _used(self) -> Provider:
        if self._provider is None:
            raise ProviderError("the provider is not configured")
        return self._provider


def _known(request: Any, outputs: Any, inputs: Any) -> Known:
    return Known(request.urn, request.id, from_struct(inputs), from_struct(outputs))


def _failures(error: ProviderError) -> Any:
    return provider_pb2.CheckResponse(failures=[provider_pb2.CheckFailure(reason=str(error))])


def _difference(diff: Diff) -> Any:
    some = provider_pb2.DiffResponse.DIFF_SOME if diff.keys else provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some,
        replaces=diff.replaces,
        deleteBeforeReplace=diff.delete_before_replace,
        diffs=diff.keys,
    )


class _Calls(grpc.ServerInterceptor):
    """Refuses calls of other users of this host, since Pulumi's protocol has no credentials.

    Errors become statuses that the engine understands.
    """

    port = 0  # of the server

    def __init__(self) -> None:
        self._peers: set[str] = set()  # the engine keeps its connection, so no other process gets its port

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Ask the kernel for the peer's user before the first call of a connection."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return None  # the protocol's streams are not served

        def guarded(request: Any, context: Any) -> Any:
            if (peer := context.peer()) not in self._peers:
                _, host, client = peer.split(":")
                if TABLES[0].exists() and user_of((host, int(client)), (host, self.port)) != os.geteuid():
                    context.abort(grpc.StatusCode.PERMISSION_DENIED, "another user started this plugin")
                self._peers.add(peer)
            try:
                return handler.unary_unary(request, context)
            except ProviderError as error:
                if isinstance(error, PartialError):
                    context.set_trailing_metadata((("grpc-status-details-bin", _details(error, request)),))
                context.abort(grpc.StatusCode.UNKNOWN, str(error))

        return grpc.unary_unary_rpc_method_handler(
            guarded, handler.request_deserializer, handler.response_serializer
        )


def _details(error: PartialError, request: Any) -> bytes:
    """Like ``rpcerror.WithDetails`` of Pulumi's Go SDK: a status whose details have the partial resource."""
    inputs = request.news if hasattr(request, "news") else request.properties
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.id, properties=to_struct(error.outputs), reasons=[str(error)], inputs=inputs
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error))
    status.details.add().Pack(detail)
    return status.SerializeToString()


def listen(service: Service) -> tuple[grpc.Server, int]:
    """Serve on a free port of loopback, only for processes of this user; returns server and port."""
    calls = _Calls()
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    server = grpc.server(pool, interceptors=[calls], options=_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(service, server)
    calls.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, calls.port


def start(name: str, engine: str) -> tuple[grpc.Server, int]:
    """Serve one of ``PLUGINS`` to the engine at an address, with separate settings."""
    module, make = PLUGINS[name].split(":")
    return listen(Service(getattr(importlib.import_module(module), make), version(f"pulumi-{name}"), engine))


def main(name: str, engine: str) -> None:
    """``python -m pulumi_plugins.serve NAME ENGINE``: a plugin until that engine ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the engine ends its plugins with it, even in background
    parent = os.getppid()
    _server, port = start(name, engine)
    print(port, flush=True)
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[-1])
