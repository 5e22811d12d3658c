"""The API of this clone's cloud, as our own commands ask it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from sandbox.site import Site

PAGE = 50
CALL_SECONDS = 30


class Api:
    """Calls the API with the clone's own token.

    Args:
        site: This clone's; its address and token are used.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def call(self, method: str, path: str) -> Mapping[str, Any]:
        """Send a request and return the answer's JSON.

        Args:
            method: Of HTTP.
            path: Below ``/v1``, with its query.

        Raises:
            urllib.error.HTTPError: The API refuses it.
            OSError: Nobody answers.
        """
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{self._site.endpoint}{path}",
            method=method,
            headers={"Authorization": f"Bearer {self._site.token}"},
        )
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:  # noqa: S310
            return json.load(answer)

    def list(self, kind: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """All objects of a kind, page by page.

        Args:
            kind: As in the API's paths, such as ``servers``.
            query: Which of them.

        Raises:
            urllib.error.HTTPError: The API refuses it.
            OSError: Nobody answers.
        """
        page: int | None = 1
        while page:
            answer = self.call("GET", f"/{kind}?{urlencode({**query, 'per_page': PAGE, 'page': page})}")
            yield from answer[kind]
            page = answer["meta"]["pagination"]["next_page"]
