"""``/healthz``, ``/livez`` and ``/readyz``: named checks, and responses like those of Kubernetes.

- livez: only the checks whose failure requires a restart. An unreachable cloud isn't a reason.
- readyz: all checks, such as a responding cloud, complete caches, and no stuck queue.
- healthz: upstream's older endpoint with all checks.

All clients may read these paths, so the response contains only the names of failed checks, in upstream's
format. The reason is in the log, once per change, and at ``/readyz/NAME`` for users with access to that path.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from http import HTTPStatus

import structlog

Check = Callable[[], str | None]
_NUMBER = re.compile(r"\d+(\.\d+)?")

log = structlog.stdlib.get_logger(__name__)


class Health:
    """The checks of the running parts of this process. A check must not block.

    ``counts`` counts the results by name, endpoint, and ``success`` or ``error``.
    """

    def __init__(self) -> None:
        self._checks: dict[str, tuple[Check, bool]] = {"ping": (lambda: None, True)}
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self._reported: dict[str, str] = {}

    def add(self, name: str, check: Check, *, live: bool = False) -> None:
        """Add a check that returns an error message or None. ``live``: only a restart would help."""
        self._checks[name] = check, live

    def remove(self, name: str) -> None:
        """Remove a check."""
        self._checks.pop(name, None)
        self._reported.pop(name, None)

    def results(self, endpoint: str) -> dict[str, str | None]:
        """The error message (or None) of each check for ``healthz``, ``livez`` or ``readyz``."""
        return {
            name: _run(check) for name, (check, live) in self._checks.items() if live or endpoint != "livez"
        }

    def answer(self, endpoint: str, *, verbose: bool, exclude: Collection[str] = ()) -> tuple[int, str]:
        """The status and text for ``healthz``, ``livez`` or ``readyz``, without the checks in ``exclude``."""
        results = self.results(endpoint)
        for name, problem in results.items():
            self.counts[name, endpoint, "error" if problem else "success"] += 1
            self._log_change(name, problem)
        lines: list[str] = []
        failed = False
        for name, problem in results.items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
            elif problem is None:
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
        unknown = [name for name in exclude if name not in results]
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "\n".join([*lines, f"{endpoint} check failed", ""])
        if verbose:
            return HTTPStatus.OK, "\n".join([*lines, f"{endpoint} check passed", ""])
        return HTTPStatus.OK, "ok"

    def answer_one(self, endpoint: str, name: str) -> tuple[int, str]:
        """The status and text for one check, for example ``/healthz/NAME``."""
        results = self.results(endpoint)
        if name not in results:
            return HTTPStatus.NOT_FOUND, f"there is no check {name}\n"
        problem = results[name]
        if problem is None:
            return HTTPStatus.OK, "ok"
        return HTTPStatus.INTERNAL_SERVER_ERROR, f"{problem}\n"

    def _log_change(self, name: str, problem: str | None) -> None:
        """Log a check's message, unless it differs from the last one only in numbers, such as seconds."""
        kind = _NUMBER.sub("#", problem or "")
        if kind == self._reported.get(name, ""):
            return
        self._reported[name] = kind
        if problem:
            log.warning("check_failed", check=name, why=problem)
        else:
            log.info("check_passed_again", check=name)


def _run(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - an error in a check is a failure
        return f"{type(error).__name__}: {error}"
