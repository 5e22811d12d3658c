"""Clients that ask all the time while something changes: one of a Service, one of the Kubernetes API."""

import base64
import http.client
import json
import ssl
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

CLIENTS = 4
PACE_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
API_PACE_SECONDS = 0.1
API_PATIENCE_SECONDS = 1.0
OBJECT = "/api/v1/namespaces/default"
SLICES = (
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web"
)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"


@dataclass(frozen=True)
class Call:
    began: float  # when, in seconds of a steady clock
    ended: float  # when it was answered, or given up
    answered: bool  # whether it was answered as it should be


def longest_failure(calls: Sequence[Call]) -> float:
    """The longest time without an answer, in seconds; 0 where every call was answered.

    Such a time begins with the first call that fails, and ends with the answer of the next that does not.
    """
    longest, failing = 0.0, None
    for call in calls:
        if not call.answered and failing is None:
            failing = call.began
        if failing is not None:
            longest = max(longest, call.ended - failing)
        if call.answered:
            failing = None
    return longest


def answers_again(calls: Sequence[Call], since: float) -> float | None:
    """Seconds from a moment until no call fails any more; None if the last one failed."""
    after = [call for call in calls if call.ended >= since]
    failed = [number for number, call in enumerate(after) if not call.answered]
    if not failed:
        return 0.0
    following = after[failed[-1] + 1 :]
    return following[0].ended - since if following else None


def failures(calls: Sequence[Call]) -> str:
    return f"{sum(not call.answered for call in calls)} of {len(calls)} were lost"


class ServiceClient:
    """Asks all the time, each time over a connection of its own, and notes what went wrong."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._asking: list[Future[None]] = []
        self.calls: list[Call] = []  # complete after the block, and by the time at which they began
        self.lost: list[tuple[float, str]] = []  # when, on the steady clock, and why

    @property
    def answered(self) -> int:
        return len(self.calls) - len(self.lost)

    def __enter__(self) -> Self:
        self._asking = [self._pool.submit(self._ask) for _ in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._pool.shutdown()
        for asking in self._asking:
            asking.result()
        self.calls.sort(key=lambda call: call.began)

    def _ask(self) -> None:
        while not self._stopped.wait(PACE_SECONDS):
            began, problem = time.monotonic(), ""
            try:
                with urllib.request.urlopen(self._url, timeout=PATIENCE_SECONDS) as answer:
                    answer.read()
            except (OSError, http.client.HTTPException) as error:
                problem = str(error) or type(error).__name__
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
            now = time.monotonic()
            if problem:
                self.lost.append((now, problem))
            self.calls.append(Call(began, now, not problem))


class Api:
    """The Kubernetes API at its address, each time over a connection of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        self._address = urlsplit(content["clusters"][0]["cluster"]["server"])
        self._context = context_of(content)

    def get(self, path: str) -> Any:
        """An object; None where it is not answered in time, or not as it should be."""
        connection = http.client.HTTPSConnection(
            self._address.hostname or "",
            self._address.port,
            timeout=API_PATIENCE_SECONDS,
            context=self._context,
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return json.loads(text) if answer.status == http.HTTPStatus.OK else None

    def reads(self) -> bool:
        return self.get(OBJECT) is not None

    def lease_holder(self) -> str:
        """The holder of the cloud-controller-manager's lease; empty if unknown."""
        return (self.get(LEASE) or {}).get("spec", {}).get("holderIdentity") or ""


class _Repeated:
    """Does something all the time on a thread of its own, as long as the block lasts."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._repeat)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._stopped.wait(API_PACE_SECONDS):
            self._ask()

    def _ask(self) -> None:
        raise NotImplementedError


class ApiClient(_Repeated):
    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__()
        self._call = ask
        self.calls: list[Call] = []

    def _ask(self) -> None:
        began = time.monotonic()
        answered = self._call()
        self.calls.append(Call(began, time.monotonic(), answered))


class ReadyWatch(_Repeated):
    """Counts the ready Pods behind the Service ``web`` all the time."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self._api: Api | None = None
        self.least: int | None = None  # the smallest number that was ever seen

    def _ask(self) -> None:
        if self._api is None and self._kubeconfig.exists():
            self._api = Api(self._kubeconfig)
        if (found := self._api.get(SLICES) if self._api else None) is None:
            self._api = None
        else:
            ready = ready_in(found)
            self.least = ready if self.least is None else min(ready, self.least)


def ready_in(slices: Mapping[str, Any]) -> int:
    endpoints = [one for item in slices["items"] for one in item.get("endpoints") or []]
    return sum(bool(one.get("conditions", {}).get("ready")) for one in endpoints)


def context_of(kubeconfig: dict[str, Any]) -> ssl.SSLContext:
    """How the API server of a kubeconfig is believed, and the client shows itself."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    # ssl reads certificates of clients from files alone
    with tempfile.NamedTemporaryFile() as file:
        file.write(base64.b64decode(user["client-certificate-data"]))
        file.write(b"\n")
        file.write(base64.b64decode(user["client-key-data"]))
        file.flush()
        context.load_cert_chain(file.name)
    return context
