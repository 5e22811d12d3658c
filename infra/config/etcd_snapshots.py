"""Snapshots of etcd: what the settings ask for, and what k3s is told about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..lib.errors import Problem
from .config_values import decoded
from .cron import wrong_with

_FLAGS = {"schedule": "etcd-snapshot-schedule-cron", "retention": "etcd-snapshot-retention"}
_CRON = r"([0-9A-Za-z*/,-]{1,40} ){4}[0-9A-Za-z*/,-]{1,40}"
_FIVE = "give the five fields of cron, such as '0 */6 * * *'"
_ALLOWED = {
    "schedule": (_CRON, _FIVE),
    "retention": ("[1-9][0-9]{0,2}", "give a whole number from 1 to 999"),
}
_KEY = "give what the bucket's owner was given: 1 to 256 characters of ASCII, none of them a space"
_S3 = {
    "endpoint": (
        r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?",
        "give a host, with a port if need be and without https://, such as fsn1.your-objectstorage.com",
    ),
    "bucket": (
        r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "give its name: 3 to 63 lower-case letters, digits, dots and hyphens, a letter or digit at both ends",
    ),
    "folder": (
        r"[A-Za-z0-9._/-]{0,200}",
        "give at most 200 letters, digits, dots, underscores, slashes and hyphens",
    ),
    "region": (r"[a-z0-9-]{1,63}", "give its name, such as fsn1"),
    "accessKey": (r"[!-~]{1,256}", _KEY),
    "secretKey": (r"[!-~]{1,256}", _KEY),
    "insecure": ("true|false", "give true or false"),
}
_NEEDED = ("endpoint", "bucket", "accessKey", "secretKey")
_S3_FLAGS = {"accessKey": "access-key", "secretKey": "secret-key"}
_NOT_SHOWN = "(not shown)"
_WHOLE = (
    "give schedule, retention and s3, or some of them, such as by: "
    "pulumi config set --path etcdSnapshots.schedule '0 */6 * * *'"
)


@dataclass(frozen=True)
class Backups:
    """What is wanted.

    Attributes:
        flags: Of ``k3s server``, by name.
        s3: Where snapshots go, too: more flags by name, among them secrets; empty: nowhere.
    """

    flags: Mapping[str, str] = field(default_factory=dict)
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        """Whether anything is wanted."""
        return bool(self.flags or self.s3)


def parse_backups(value: Any, key: str) -> tuple[Backups, list[Problem]]:
    """Reads the setting. What stands in ``s3`` may open a bucket, and is in no problem.

    Args:
        value: As Pulumi hands it to a program: JSON, or what it says.
        key: Of the setting.

    Returns:
        What is wanted, nothing where something is wrong; and every problem.
    """
    given = decoded(value)
    if not isinstance(given, Mapping):
        return Backups(), [Problem(key, None if value is None else _NOT_SHOWN, _WHOLE)]
    rest = {name: part for name, part in given.items() if name != "s3"}
    known = (*_ALLOWED, "s3")
    flags, problems = _parts(rest, _ALLOWED, key, known)
    if "schedule" in flags and (why := wrong_with(flags["schedule"])):
        problems.append(Problem(f"{key}.schedule", flags["schedule"], f"{_FIVE}; {why}"))
    store: dict[str, str] = {}
    if "s3" in given:
        store, more = _store(given["s3"], f"{key}.s3")
        problems += more
    if problems:
        return Backups(), problems
    s3 = {f"etcd-s3-{_S3_FLAGS.get(name, name)}": text for name, text in store.items()}
    return Backups(
        {_FLAGS[name]: text for name, text in flags.items()}, {"etcd-s3": "true", **s3} if s3 else {}
    ), []


def _store(given: Any, key: str) -> tuple[dict[str, str], list[Problem]]:
    if not isinstance(given, Mapping):
        allowed = f"give {', '.join(_NEEDED)}, and if need be folder, region and insecure"
        return {}, [Problem(key, _NOT_SHOWN, allowed)]
    texts, problems = _parts(given, _S3, key, tuple(_S3), secret=True)
    missing = [name for name in _NEEDED if name not in given] if given else []
    return texts, problems + [Problem(f"{key}.{name}", None, _S3[name][1]) for name in missing]


def _parts(
    given: Mapping[str, Any],
    allowed: Mapping[str, tuple[str, str]],
    key: str,
    known: Sequence[str],
    *,
    secret: bool = False,
) -> tuple[dict[str, str], list[Problem]]:
    """What is given as texts, and a problem for each that is wrong.

    Args:
        given: Parts of the setting by name.
        allowed: For each, what it has to match, and how that is said.
        key: Begins the keys of problems.
        known: All names that there are.
        secret: Whether what is given is shown to nobody.
    """
    texts, problems = {}, []
    for name, part in given.items():
        text = str(part).lower() if isinstance(part, bool) else str(part)
        pattern, wanted = allowed.get(name, ("", f"there is no such key; known are {', '.join(known)}"))
        if isinstance(part, str | int) and name in allowed and re.fullmatch(pattern, text, re.ASCII):
            texts[name] = text
        else:
            hidden = secret or name not in allowed  # a key of s3 may have been written beside it
            shown = _NOT_SHOWN if hidden and part is not None else part
            problems.append(Problem(f"{key}.{name}", shown, wanted))
    return texts, problems


def settings_file(s3: Mapping[str, str]) -> str:
    """What k3s reads: secrets stand in a file, never in a process list. JSON is YAML."""
    switches = ("true", "false")
    lines = [f"{name}: {text if text in switches else json.dumps(text)}" for name, text in sorted(s3.items())]
    return "".join(f"{line}\n" for line in lines)
