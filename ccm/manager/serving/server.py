"""The HTTP endpoints for probes and Prometheus, which followers also serve."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ccm.kube.errors import KubernetesError
from ccm.manager.serving.health import Health
from ccm.manager.serving.reviews import ANONYMOUS, AccessReviewer, TokenReviewer, User, user_of_certificate

_ENDPOINTS = ("healthz", "livez", "readyz")

log = structlog.stdlib.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides which paths a client may read. ``/x/*`` in ``always_allowed`` means all below ``/x/``."""

    always_allowed: tuple[str, ...]
    tokens: TokenReviewer
    access: AccessReviewer

    def is_public(self, path: str) -> bool:
        """Whether all clients may read this path."""
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self.always_allowed
        )

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The error response to a client that may not read this path; None if the client may read it."""
        if self.is_public(request.path):
            return None
        try:
            user = await self._user(request)
            if user is None:
                return _status(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")
            if await self.access.allowed(user, request.method.lower(), request.path):
                return None
        except KubernetesError as error:
            log.warning("access_not_checked", path=request.path, error=str(error))
            return _status(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "InternalError",
                "the SubjectAccessReview of the API server failed, so the access can't be checked",
            )
        text = f'forbidden: User "{user.username}" cannot {request.method.lower()} path "{request.path}"'
        return _status(HTTPStatus.FORBIDDEN, "Forbidden", text)

    async def _user(self, request: web.Request) -> User | None:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        user = user_of_certificate(certificate)
        if user is not None:
            return user
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return await self.tokens.user_of(token.strip())
        return ANONYMOUS


def build_application(
    health: Health, registry: CollectorRegistry, configuration: Mapping[str, Any], guard: Guard
) -> web.Application:
    """Create the application with all endpoints and the access check."""

    @web.middleware
    async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = await guard.refusal(request)
        return refused if refused is not None else await handler(request)

    async def checks(request: web.Request) -> web.Response:
        exclude = request.query.getall("exclude", [])
        endpoint = request.match_info["endpoint"]
        status, text = health.answer(endpoint, verbose="verbose" in request.query, exclude=exclude)
        return web.Response(status=status, text=text)

    async def check(request: web.Request) -> web.Response:
        status, text = health.answer_one(request.match_info["endpoint"], request.match_info["check"])
        return web.Response(status=status, text=text)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def slis(_request: web.Request) -> web.Response:
        return web.Response(text=health_metrics(health), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def configz(_request: web.Request) -> web.Response:
        return web.json_response(configuration)

    application = web.Application(middlewares=[check_access])
    endpoint = f"/{{endpoint:{'|'.join(_ENDPOINTS)}}}"
    application.router.add_get(endpoint, checks)
    application.router.add_get(f"{endpoint}/{{check}}", check)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/metrics/slis", slis)
    application.router.add_get("/configz", configz)
    return application


def health_metrics(health: Health) -> str:
    """The content of ``/metrics/slis``: the result of each check, as service level indicators."""
    name = "kubernetes_healthcheck"
    lines = [f"# HELP {name} This metric records the result of a single healthcheck.", f"# TYPE {name} gauge"]
    for endpoint in _ENDPOINTS:
        for check, problem in health.results(endpoint).items():
            lines.append(f'{name}{{name="{check}",type="{endpoint}"}} {0 if problem else 1}')
    total = f"{name}s_total"
    lines += [
        f"# HELP {total} This metric records the results of all healthchecks.",
        f"# TYPE {total} counter",
    ]
    for (check, endpoint, status), number in health.counts.items():
        lines.append(f'{total}{{name="{check}",status="{status}",type="{endpoint}"}} {number}')
    return "\n".join([*lines, ""])


def _status(code: HTTPStatus, reason: str, message: str) -> web.Response:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.Response(status=code, text=json.dumps(body), content_type="application/json")
