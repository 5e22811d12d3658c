"""A plugin listens on loopback, where every user of the host can connect."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf import empty_pb2

from sandbox.engine.providers.hcloud.provider import HcloudProvider
from sandbox.engine.providers.protocol import provider_pb2_grpc
from sandbox.engine.providers.serve import Service, listen

NOBODY = 65534


@contextmanager
def relay(port: int, user: int) -> Iterator[int]:
    """A port that leads to another one, by a connection that the kernel holds for a user's."""

    def connect() -> None:
        ctypes.CDLL(None).setfsuid(user)  # of this thread alone
        accepted, _ = listening.accept()
        with accepted, socket.create_connection(("127.0.0.1", port), timeout=60) as onward:
            back = threading.Thread(target=copy, args=(onward, accepted), daemon=True)
            back.start()
            copy(accepted, onward)

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass  # the test has ended
        target.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=connect, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as another user")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_other_users_of_the_host_are_refused(user: int) -> None:
    server, port = listen(Service(HcloudProvider, "1.0.0", "127.0.0.1:1"))
    try:
        with relay(port, user) as way, grpc.insecure_channel(f"127.0.0.1:{way}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            if user:
                with pytest.raises(grpc.RpcError) as caught:
                    stub.GetPluginInfo(empty_pb2.Empty(), timeout=60)
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            else:
                assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=60).version == "1.0.0"
    finally:
        server.stop(None)
