"""Copies of the API server's objects, kept by watches."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from k3s_standin import log
from k3s_standin.api import ApiClient, ApiError

_RETRY_SECONDS = 1.0
_REPORT_SECONDS = 60.0


class Mirror(threading.Thread):
    """A copy of one kind of objects, kept by a watch in a daemon thread."""

    def __init__(
        self, api: ApiClient, path: str, read: Callable[[Mapping[str, Any]], Any], changed: Callable[[], None]
    ) -> None:
        """Starts nothing. The thread calls ``changed``. Objects are left out if ``read`` returns None."""
        super().__init__(name=f"watch {path}", daemon=True)
        self._api, self._path, self._read, self._changed = api, path, read, changed
        self._reported = -_REPORT_SECONDS
        self.objects: Mapping[str, Any] | None = None
        """Maps UIDs to objects; None until the first list succeeds. Each change assigns a new mapping."""

    def run(self) -> None:
        """List and watch until the process ends."""
        while True:
            try:
                version = self._list()
                for event in self._api.watch(self._path, version):
                    self._take(event)
            except ApiError as error:
                self._report(error)
                time.sleep(_RETRY_SECONDS)

    def _list(self) -> str:
        found = self._api.request("GET", f"{self._path}?resourceVersion=0")
        self._keep({one["metadata"]["uid"]: self._read(one) for one in found["items"]})
        return str(found["metadata"]["resourceVersion"])

    def _take(self, event: Mapping[str, Any]) -> None:
        content = event["object"]
        if event["type"] == "ERROR":
            raise ApiError(content.get("code", 0), f"{self._path}: {content.get('message')}")
        if event["type"] == "BOOKMARK":
            return
        kept = self._read(content) if event["type"] != "DELETED" else None
        self._keep({**(self.objects or {}), content["metadata"]["uid"]: kept})

    def _keep(self, objects: Mapping[str, Any]) -> None:
        kept = {uid: one for uid, one in objects.items() if one is not None}
        if kept != self.objects:
            self.objects = kept
            self._changed()

    def _report(self, error: ApiError) -> None:
        # The version may be too old (410): the objects are listed again. At the start we have no rights yet.
        if error.status != 410 and time.monotonic() - self._reported > _REPORT_SECONDS:
            log.warning(f"the watch of {self._path} failed and starts again: {error}")
            self._reported = time.monotonic()


def setter(event: asyncio.Event) -> Callable[[], None]:
    """A function that sets an event of the running loop from any thread, and does nothing after its end."""
    loop = asyncio.get_running_loop()

    def set_event() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)

    return set_event
