"""The API of an emulated cloud, as our own commands ask it."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from hetzner_emulator.address import Address
from sandbox.errors import CloudError, SandboxError

PAGE = 50
CALL_SECONDS = 30
LARGEST_ANSWER = 1 << 20


class Api:
    """Calls the API."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Send a request and return the answer's JSON."""
        try:
            return self._send(method, self._address.endpoint + path, body)
        except urllib.error.HTTPError as error:
            with error:
                what = f"the cloud answers {error.code}, {_reported(error)}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            what = f"the response of the cloud can't be decoded ({error})"
        raise CloudError(f"{method} {path}", what)

    def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Send an admin call and return the answer's JSON."""
        try:
            return self._send(method, f"http://127.0.0.1:{self._address.port}/_sandbox{path}", body)
        except urllib.error.HTTPError as error:
            with error:
                raise SandboxError(reason(error.read(LARGEST_ANSWER))) from None

    def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - our own address
            url,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self._address.token}"},
        )
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:  # noqa: S310
            return json.load(answer)

    def list(self, kind: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """All objects of a kind, page by page; raises CloudError as :meth:`call`."""
        page: int | None = 1
        while page:
            answer = self.call("GET", f"/{kind}?{urlencode({**query, 'per_page': PAGE, 'page': page})}")
            yield from answer[kind]
            page = answer["meta"]["pagination"]["next_page"]


def _reported(error: urllib.error.HTTPError) -> str:
    """What the API says of an error; its status if the answer is cut off or isn't JSON, as from a proxy."""
    try:
        return reason(error.read(LARGEST_ANSWER))
    except (OSError, http.client.HTTPException, ValueError):
        return error.reason


def reason(answer: bytes) -> str:
    """Why a call was refused, in one line."""
    error = json.loads(answer)["error"]
    fields = (error.get("details") or {}).get("fields") or []
    wrong = [f"{field['name']}: {', '.join(field['messages'])}" for field in fields if field.get("messages")]
    return "; ".join(wrong) or error["message"]
