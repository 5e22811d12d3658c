"""An API server in a process of its own, with nothing but large Services: ``python -m bench.lab.large_api``.

It makes each when it is asked for, so it needs no memory for them; and none of what it needs is the client's.
A path says which: ``/annotations/…`` or ``/kept/…``. A watch sends each once more, and then nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable

from aiohttp import web

from bench.lab.http import serve_for_ever
from bench.lab.large import all_kept, full_of_annotations

KINDS: dict[str, Callable[[random.Random, int], bytes]] = {
    "annotations": full_of_annotations,
    "kept": all_kept,
}


class LargeApi:
    """Answers lists by pages, and watches.

    Args:
        number: How many Services there are.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch."""
        kind = KINDS[request.match_info["kind"]]
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            if request.query.get("watch"):
                for index in range(self._number):
                    line = b'{"type":"MODIFIED","object":%b}\n' % self._service(kind, index)
                    await response.write(line)
                await asyncio.Event().wait()
            await self._page(request, response, kind)
        except ConnectionResetError:
            pass  # the page was too large for the client, which is what this is for
        return response

    async def _page(
        self, request: web.Request, response: web.StreamResponse, kind: Callable[[random.Random, int], bytes]
    ) -> None:
        start = int(request.query.get("continue", "0"))
        end = min(self._number, start + int(request.query["limit"]))
        more = f',"continue":"{end}"' if end < self._number else ""
        head = f'{{"metadata":{{"resourceVersion":"{self._number}"{more}}},"items":['
        await response.write(head.encode())
        for index in range(start, end):
            await response.write(b"," * (index > start) + self._service(kind, index))
        await response.write(b"]}")

    def _service(self, kind: Callable[[random.Random, int], bytes], index: int) -> bytes:
        return kind(random.Random(index), index)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, required=True)
    app = web.Application()
    app.router.add_get("/{kind}/{path:.*}", LargeApi(parser.parse_args().services).handle)
    asyncio.run(serve_for_ever(app))
