"""The log: one line for each event, in klog's format or as JSON, without secrets.

A message is a constant word, and fields contain the variable data. Messages of libraries that use Python's
``logging`` get the same format.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import msgspec
import structlog

_LETTERS = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F"}
_DEBUG_FROM = 4
_LONG_ENOUGH = 6
_SECRET_NAME = re.compile(r"TOKEN|PASSWORD|SECRET|PASSPHRASE", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_MASK = "[secret]"
_MAX_CHARACTERS = 8_192
"""Maximum length of one log field, in characters. Texts in Kubernetes objects can be longer."""

EventDict = MutableMapping[str, Any]


class Redactor:
    """Removes secrets from logs and Events; former contents of ``files`` stay secret."""

    def __init__(self, secrets: Iterable[str] = (), files: Iterable[Path] = ()) -> None:
        self._secrets = set(secrets)
        self._versions: dict[Path, tuple[int, int] | None] = dict.fromkeys(files)
        self._known: re.Pattern[str] | None = None
        self._learn()
        self._compile()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Redactor:
        """A redactor for variables with names such as ``…_TOKEN``, and for the files in such variables."""
        secret = {name: value for name, value in environment.items() if _SECRET_NAME.search(name) and value}
        return cls(
            (value for name, value in secret.items() if not name.endswith("_FILE")),
            (Path(value) for name, value in secret.items() if name.endswith("_FILE")),
        )

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Redact all fields of an event, as a processor of structlog."""
        self._follow()
        for name, value in event.items():
            if isinstance(value, str):
                event[name] = self._clean(value)
            elif not isinstance(value, int | float | bool | type(None)) and name[:1] != "_":
                event[name] = self._clean(str(value))
        return event

    def clean(self, text: str) -> str:
        """Remove secrets from a text."""
        self._follow()
        return self._clean(text)

    def _follow(self) -> None:
        """Read changed files. The check for changes needs only a microsecond."""
        if self._learn():
            self._compile()

    def _learn(self) -> bool:
        learned = False
        for path, known in self._versions.items():
            try:
                state = path.stat()
                version = state.st_mtime_ns, state.st_ino
                if version != known:
                    self._secrets.add(path.read_text(encoding="utf-8").strip())
                    self._versions[path] = version
                    learned = True
            except (OSError, UnicodeDecodeError):
                continue  # the code that uses the file reports the error
        return learned

    def _compile(self) -> None:
        known = sorted(
            (secret for secret in self._secrets if len(secret) >= _LONG_ENOUGH), key=len, reverse=True
        )
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def _clean(self, text: str) -> str:
        text = _BEARER.sub(rf"\1 {_MASK}", text)
        return self._known.sub(_MASK, text) if self._known else text


def set_up_logs(
    *, form: str, verbosity: int, redactor: Redactor | None = None, stream: TextIO | None = None
) -> None:
    """Log to one stream as ``text`` or ``json``; ``verbosity`` (``-v``) 4 and more adds debug messages."""
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.format_exc_info,
        redactor or Redactor(),
        _shorten,  # after the redaction, because a cut secret would not be recognized
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    render = _as_json if form == "json" else _as_klog
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # The debug output of these libraries would contain every request with its headers.
    for noisy in ("asyncio", "aiohttp", "urllib3", "kubernetes"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _shorten(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Cut the middle of long texts, as a processor of structlog: a stack trace ends with the error."""
    half = _MAX_CHARACTERS // 2
    for name, value in event.items():
        if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
            event[name] = f"{value[:half]} [… {len(value)} characters …] {value[-half:]}"
    return event


def _as_json(_logger: object, _method: str, event: EventDict) -> str:
    record = {
        "ts": datetime.now(UTC).timestamp(),
        "level": event.pop("level", "info"),
        "logger": event.pop("logger", ""),
        "msg": event.pop("event", ""),
        **event,
    }
    return msgspec.json.encode(record, enc_hook=str).decode()


def _as_klog(_logger: object, _method: str, event: EventDict) -> str:
    """``I1121 11:43:19.123456 ccm.kube.lease] "lease_released" lease="..."``."""
    letter = _LETTERS.get(str(event.pop("level", "info")), "I")
    stamp = datetime.now(UTC).strftime("%m%d %H:%M:%S.%f")
    logger, message = event.pop("logger", ""), event.pop("event", "")
    stack = event.pop("exception", None)
    fields = "".join(f" {name}={_quoted(value)}" for name, value in sorted(event.items()))
    tail = f"\n{stack}" if stack else ""
    return f"{letter}{stamp} {logger}] {_quoted(str(message))}{fields}{tail}"


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return str(value)
