"""The aiohttp application: API, metadata service and admin calls."""

import time
from collections.abc import AsyncIterator, Callable
from random import Random, SystemRandom

from aiohttp import web
from aiohttp.typedefs import Handler

from hetzner_emulator import metadata
from hetzner_emulator.admin import calls, console
from hetzner_emulator.backend import Backend
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.http.access import own_names_only, refusal
from hetzner_emulator.http.dispatch import PREFIX, Dispatcher
from hetzner_emulator.resources import discover

CLOUD = web.AppKey("cloud", Cloud)
# Zone files have 1 MiB at most, and JSON escapes some of their characters.
_MAX_BODY = 2 * 1024 * 1024


@web.middleware
async def in_one_form(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return other paths and methods as errors of the API."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        text = f"not found: API paths begin with {PREFIX}, and the console's path is {console.PATH}"
        return refusal(ApiError("not_found", text))
    except web.HTTPMethodNotAllowed:
        return refusal(ApiError("method_not_allowed", "the request method is not allowed"))


def create_app(
    config: CloudConfig,
    backend: Backend,
    clock: Callable[[], float] = time.time,
    randomness: Random | None = None,
) -> web.Application:
    """The application, which serves ``/v1``, ``/hetzner/v1`` and ``/_sandbox`` on any number of sockets.

    The backend starts and stops with it; the clock returns Unix time in seconds. Raises StateFileError.
    """
    discover()
    cloud = Cloud(config, backend, clock, randomness or SystemRandom())
    app = web.Application(client_max_size=_MAX_BODY, middlewares=[own_names_only, in_one_form])
    app[CLOUD] = cloud
    app.router.add_route("*", PREFIX + "/{path:.*}", Dispatcher(cloud).handle)
    app.add_routes(metadata.routes(cloud))
    app.add_routes(calls.routes(cloud))

    async def lifetime(_app: web.Application) -> AsyncIterator[None]:
        await cloud.start()
        yield
        await cloud.stop()

    app.cleanup_ctx.append(lifetime)
    return app
