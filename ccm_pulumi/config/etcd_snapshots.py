"""Settings of etcd snapshots, and the flags and the file of k3s for them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..lib.errors import Problem
from .config_values import Parts, as_typed, decoded, parts_of
from .cron import wrong_with

_FLAGS = {"schedule": "etcd-snapshot-schedule-cron", "retention": "etcd-snapshot-retention"}
_FIVE = "use the five fields of cron, such as '0 */6 * * *'"


def _matching(pattern: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = as_typed(value)
        if not isinstance(text, str) or not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError
        return text

    return parse


_five_fields = _matching(r"([0-9A-Za-z*/,-]{1,40} ){4}[0-9A-Za-z*/,-]{1,40}")


def _schedule(value: Any) -> str:
    if why := wrong_with(text := _five_fields(value)):
        raise ValueError(f"{_FIVE}; {why}")
    return text


def _store(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


_KEY = "use a key from the bucket owner's credentials: 1 to 256 ASCII characters without spaces"
_S3: Parts = {
    "endpoint": (
        _matching(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?"),
        "use a host without https://, optionally with a port, such as fsn1.your-objectstorage.com",
    ),
    "bucket": (
        _matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
        "use 3 to 63 lower-case letters, digits, dots and hyphens, with letters or digits at both ends",
    ),
    "folder": (
        _matching(r"[A-Za-z0-9._/-]{0,200}"),
        "give at most 200 letters, digits, dots, underscores, slashes and hyphens",
    ),
    "region": (_matching(r"[a-z0-9-]{1,63}"), "give the name of a region, such as fsn1"),
    "accessKey": (_matching(r"[!-~]{1,256}"), _KEY),
    "secretKey": (_matching(r"[!-~]{1,256}"), _KEY),
    "insecure": (_matching("true|false"), "give true or false"),
}
_NEEDED = ("endpoint", "bucket", "accessKey", "secretKey")
_PARTS: Parts = {
    "schedule": (_schedule, _FIVE),
    "retention": (_matching("[1-9][0-9]{0,2}"), "give a whole number from 1 to 999"),
    "s3": (_store, f"set the keys {', '.join(_NEEDED)}. Optional keys: folder, region, insecure"),
}
_S3_FLAGS = {"accessKey": "access-key", "secretKey": "secret-key"}
_NOT_SHOWN = "(not shown)"
_WHOLE = (
    "set one or more of the keys schedule, retention and s3. Example: "
    "pulumi config set --path etcdSnapshots.schedule '0 */6 * * *'"
)


@dataclass(frozen=True)
class Backups:
    """Snapshots, and where k3s stores them."""

    flags: Mapping[str, str] = field(default_factory=dict)  # of ``k3s server``, by name
    # flags of the bucket, with secrets; empty: no bucket
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        """Whether any of it is set."""
        return bool(self.flags or self.s3)


def parse_backups(value: Any, key: str) -> tuple[Backups, list[Problem]]:
    """The snapshots, empty if anything is invalid; and all problems, none with a value of ``s3``."""
    setting = decoded(value)
    if not isinstance(setting, Mapping):
        return Backups(), [Problem(key, None if value is None else _NOT_SHOWN, _WHOLE)]
    # a null is a mistake, and not the absence of a value
    read, problems = parts_of(setting, key, _PARTS, setting)
    store = read.pop("s3", {})
    texts, of_store = parts_of(store, f"{key}.s3", _S3, {*_NEEDED, *store} if store else ())
    # a misplaced key may be one of s3, too
    shown = {f"{key}.{name}" for name in _FLAGS}
    problems = [
        found if found.key in shown or found.value is None else replace(found, value=_NOT_SHOWN)
        for found in [*problems, *of_store]
    ]
    if problems:
        return Backups(), problems
    s3 = {f"etcd-s3-{_S3_FLAGS.get(name, name)}": text for name, text in texts.items()}
    flags = {_FLAGS[name]: text for name, text in read.items()}
    return Backups(flags, {"etcd-s3": "true", **s3} if s3 else {}), []


def settings_file(s3: Mapping[str, str]) -> str:
    """The configuration file of k3s: secrets are in a file, never in a process list. JSON is valid YAML."""
    switches = ("true", "false")
    lines = [f"{name}: {text if text in switches else json.dumps(text)}" for name, text in sorted(s3.items())]
    return "".join(f"{line}\n" for line in lines)
