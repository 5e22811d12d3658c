"""One command on one stack: opens everything, runs it, writes the end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection
from concurrent import futures
from importlib.metadata import version
from typing import Any

from sandbox.engine.deployment import deletion, refreshing, resume
from sandbox.engine.deployment.run import Run
from sandbox.engine.display.listener import Listener
from sandbox.engine.errors import UsageError
from sandbox.engine.program.host import ProgramHost
from sandbox.engine.projects.config import resolve
from sandbox.engine.projects.workspace import Workspace
from sandbox.engine.providers.registry import Registry
from sandbox.engine.providers.surroundings import Surroundings
from sandbox.engine.state.resource import STACK_TYPE, Resource
from sandbox.engine.state.snapshot import Snapshot

_LOOKING = "Looking at what is there"
_SERVER_THREADS = 256  # the SDK blocks one of its threads for every resource that is being registered


class Session:
    """A run of the engine on one stack, whose lock the caller holds.

    Args:
        workspace: The project, its states and the environment.
        stack: Name of the stack.
        listener: Hears what happens.
        preview: Change nothing.
        parallel: At most so many operations at once.
        refresh: Look at what is there first; None leaves that to the project.
        replace: URNs of resources that are made anew in any case.

    Raises:
        EngineError: State, settings or passphrase can't be used.
    """

    def __init__(
        self,
        workspace: Workspace,
        stack: str,
        listener: Listener,
        *,
        preview: bool,
        parallel: int = 16,
        refresh: bool | None = None,
        replace: Collection[str] = (),
    ) -> None:
        deployment, file = workspace.deployment(stack), workspace.stack_file(stack)
        state_crypter, file_crypter = workspace.crypters(deployment, file)
        self._project = project = workspace.project
        self._refreshes = project.refresh_always if refresh is None else refresh
        self._configuration = resolve(project, file, file_crypter)
        self._host: ProgramHost | None = None
        write = None if preview else lambda data: workspace.backend.save(stack, data)
        self.snapshot = Snapshot(deployment, state_crypter, version("pulumi"), write)
        self.run = Run(
            stack,
            project.name,
            self.snapshot,
            listener,
            preview=preview,
            parallel=parallel,
            replace=frozenset(replace),
        )
        around = Surroundings(project.program, project.name, stack, workspace.environment, listener)
        self.registry = Registry(self.snapshot, self._configuration, around)

    # --- commands; each returns when the state is written

    def up(self, host: ProgramHost) -> None:
        """Run the program and make the stack what it says; also the preview of that."""
        self._guarded(lambda: self._up(host))

    def destroy(self) -> None:
        """Delete everything."""

        def work() -> None:
            resume.resume(self.run, self.registry)
            self._refresh_if_wanted()
            self.run.check()
            self.run.listener.phase("Deleting")
            resources = self.snapshot.remaining()
            deletion.check_protected(resources)
            deletion.delete_all(self.run, resources, self._provider_of)

        self._guarded(work)

    def refresh(self) -> None:
        """Make the state what is really there."""

        def work() -> None:
            resume.resume(self.run, self.registry)
            self.run.listener.phase(_LOOKING)
            refreshing.refresh(self.run, self.registry)

        self._guarded(work)

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, with secret marks."""
        root = next((item for item in self.snapshot.resources() if item.type == STACK_TYPE), None)
        return root.outputs if root else {}

    def interrupt(self) -> None:
        """Start nothing new; the operations that run are finished and saved."""
        self.run.listener.notice(
            "Interrupted: what has begun is finished and saved first. Press Ctrl-C again to leave at once."
        )
        self.run.fail("update canceled")
        if self._host is not None:
            self._host.kill()

    # --- inside

    def _guarded(self, work: Callable[[], object]) -> None:
        with _interrupts(self):
            try:
                self.run.guarded(work)
            finally:
                self.run.wait_idle()
                self.registry.close()
                self.snapshot.save()

    def _refresh_if_wanted(self) -> None:
        if self._refreshes:
            self.run.listener.phase(_LOOKING)
            refreshing.refresh(self.run, self.registry, quiet=True)

    def _provider_of(self, resource: Resource) -> Any:
        return self.registry.get(resource.provider)

    def _up(self, host: ProgramHost) -> None:
        import grpc  # noqa: PLC0415  slow to load; while it loads, so does the program's process
        from pulumi.runtime.proto import engine_pb2_grpc, resource_pb2_grpc  # noqa: PLC0415

        from sandbox.engine.deployment.registration import Registrar  # noqa: PLC0415
        from sandbox.engine.program.engine_service import EngineService  # noqa: PLC0415
        from sandbox.engine.program.monitor import ResourceMonitor  # noqa: PLC0415
        from sandbox.engine.providers.dynamic.provider import OPTIONS  # noqa: PLC0415

        self._host = host
        self.run.listener.phase("Loading")
        self._check_replace()
        resume.resume(self.run, self.registry)
        self._refresh_if_wanted()
        self.run.check()
        registrar = Registrar(self.run, self.registry)

        def finish() -> None:
            self.run.check()
            self.run.listener.phase("Deleting what is no longer wanted")
            leftover = registrar.unregistered()
            deletion.check_protected(leftover)
            deletion.delete_all(self.run, leftover, self._provider_of)

        monitor = ResourceMonitor(
            self.run, registrar, self.registry, self._configuration, self._project.root, finish
        )
        server = grpc.server(futures.ThreadPoolExecutor(_SERVER_THREADS), options=OPTIONS)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
        engine_pb2_grpc.add_EngineServicer_to_server(EngineService(self.run), server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            self.run.listener.phase("Running the program")
            host.start(self._settings(address))
            self._wait(host)
            self.run.wait_idle()
        finally:
            host.kill()
            server.stop(0)
        self._finish_outputs(registrar.old_stack_outputs)

    def _check_replace(self) -> None:
        known = {item.urn: item for item in self.snapshot.resources()}
        for urn in sorted(self.run.replace):
            if urn not in known:
                raise UsageError(f"--replace: the stack has no resource '{urn}'")
            if not known[urn].is_managed:
                raise UsageError(f"--replace: '{urn}' can't be made anew: no provider makes it")

    def _settings(self, address: str) -> dict[str, Any]:
        return {
            "config": dict(self._configuration.values),
            "secret_keys": list(self._configuration.secret_keys),
            "settings": {
                "project": self._project.name,
                "stack": self.run.stack,
                "monitor": address,
                "engine": address,
                "parallel": self.run.parallel,
                "dry_run": self.run.preview,
                "organization": "organization",
                "root_directory": str(self._project.root),
            },
        }

    def _wait(self, host: ProgramHost) -> None:
        status = host.wait()
        if status and not self.run.failed:
            self.run.fail(f"the program ended with exit status {status}")

    def _finish_outputs(self, before: dict[str, Any]) -> None:
        """After a failure the program's outputs are incomplete: old ones stay beside the new ones."""
        root = next((item for item in self.snapshot.news.values() if item.type == STACK_TYPE), None)
        if root is not None and self.run.failed:
            root.outputs = {**before, **root.outputs}
            self.snapshot.complete(root, None, save=False)


class _interrupts:  # noqa: N801  a context manager
    """Ctrl-C and SIGTERM end a session in order; the second one ends it at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before: dict[int, Any] = {}
        self._count = 0

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, *_: object) -> None:
        self._count += 1
        if self._count > 1:
            os._exit(1)
        # not in the signal handler itself: the main thread may hold one of the locks that this needs
        threading.Thread(target=self._session.interrupt, daemon=True).start()
