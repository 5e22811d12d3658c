"""Settings of etcd snapshots, and the flags and the file of k3s for them."""

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
_FIVE = "use the five fields of cron, such as '0 */6 * * *'"
_ALLOWED = {"schedule": (_CRON, _FIVE), "retention": ("[1-9][0-9]{0,2}", "give a whole number from 1 to 999")}
_KEY = "use the bucket owner's credentials: 1 to 256 ASCII characters without spaces"
_S3 = {
    "endpoint": (
        r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?",
        "use a host without https://, optionally with a port, such as fsn1.your-objectstorage.com",
    ),
    "bucket": (
        r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "use its name: 3 to 63 lower-case letters, digits, dots and hyphens, no dot or hyphen at an end",
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
    "give schedule, retention and s3, or some of them. Example: "
    "pulumi config set --path etcdSnapshots.schedule '0 */6 * * *'"
)


@dataclass(frozen=True)
class Backups:
    """Snapshots, and where k3s stores them.

    Attributes:
        flags: Of ``k3s server``, by name.
        s3: Flags of the bucket by name, including secrets; empty: no bucket.
    """

    flags: Mapping[str, str] = field(default_factory=dict)
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        """Whether any of it is set."""
        return bool(self.flags or self.s3)


def parse_backups(value: Any, key: str) -> tuple[Backups, list[Problem]]:
    """Reads the setting. Problems never contain values of ``s3``, which may be credentials.

    Returns:
        The snapshots, empty if anything is invalid; and all problems.
    """
    setting = decoded(value)
    if not isinstance(setting, Mapping):
        return Backups(), [Problem(key, None if value is None else _NOT_SHOWN, _WHOLE)]
    rest = {name: part for name, part in setting.items() if name != "s3"}
    known = (*_ALLOWED, "s3")
    flags, problems = _parts(rest, _ALLOWED, key, known)
    if "schedule" in flags and (why := wrong_with(flags["schedule"])):
        problems.append(Problem(f"{key}.schedule", flags["schedule"], f"{_FIVE}; {why}"))
    store: dict[str, str] = {}
    if "s3" in setting:
        store, more = _store(setting["s3"], f"{key}.s3")
        problems += more
    if problems:
        return Backups(), problems
    s3 = {f"etcd-s3-{_S3_FLAGS.get(name, name)}": text for name, text in store.items()}
    return Backups(
        {_FLAGS[name]: text for name, text in flags.items()}, {"etcd-s3": "true", **s3} if s3 else {}
    ), []


def _store(setting: Any, key: str) -> tuple[dict[str, str], list[Problem]]:
    if not isinstance(setting, Mapping):
        allowed = f"give {', '.join(_NEEDED)}, and optionally folder, region and insecure"
        return {}, [Problem(key, _NOT_SHOWN, allowed)]
    texts, problems = _parts(setting, _S3, key, tuple(_S3), secret=True)
    missing = [name for name in _NEEDED if name not in setting] if setting else []
    return texts, problems + [Problem(f"{key}.{name}", None, _S3[name][1]) for name in missing]


def _parts(
    setting: Mapping[str, Any],
    allowed: Mapping[str, tuple[str, str]],
    key: str,
    known: Sequence[str],
    *,
    secret: bool = False,
) -> tuple[dict[str, str], list[Problem]]:
    """The valid parts as strings, and a problem for each invalid one.

    Args:
        setting: Its parts by name.
        allowed: For each part, a pattern and a text about it.
        key: Prefix of the keys of problems.
        known: All known names.
        secret: Whether problems must not contain the values.
    """
    texts, problems = {}, []
    for name, part in setting.items():
        text = str(part).lower() if isinstance(part, bool) else str(part)
        pattern, wanted = allowed.get(name, ("", f"there is no such key; allowed: {', '.join(known)}"))
        if isinstance(part, str | int) and name in allowed and re.fullmatch(pattern, text, re.ASCII):
            texts[name] = text
        else:
            hidden = secret or name not in allowed  # it may be a misplaced key of s3
            shown = _NOT_SHOWN if hidden and part is not None else part
            problems.append(Problem(f"{key}.{name}", shown, wanted))
    return texts, problems


def settings_file(s3: Mapping[str, str]) -> str:
    """The configuration file of k3s: secrets are in a file, never in a process list. JSON is valid YAML."""
    switches = ("true", "false")
    lines = [f"{name}: {text if text in switches else json.dumps(text)}" for name, text in sorted(s3.items())]
    return "".join(f"{line}\n" for line in lines)
