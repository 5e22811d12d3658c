"""Snapshots of etcd: what the settings ask for, and what k3s is told about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_FLAGS = {"schedule": "etcd-snapshot-schedule-cron", "retention": "etcd-snapshot-retention"}
_CRON = r"([0-9A-Za-z*/,-]{1,40} ){4}[0-9A-Za-z*/,-]{1,40}"
_ALLOWED = {"schedule": _CRON, "retention": "[1-9][0-9]{0,2}"}
_S3 = {
    "endpoint": r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?",
    "bucket": r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "folder": r"[A-Za-z0-9._/-]{0,200}",
    "region": r"[a-z0-9-]{1,63}",
    "accessKey": r"[!-~]{1,256}",
    "secretKey": r"[!-~]{1,256}",
    "insecure": "true|false",
}
_NEEDED = {"endpoint", "bucket", "accessKey", "secretKey"}
_S3_FLAGS = {"accessKey": "access-key", "secretKey": "secret-key"}
ALLOWED = (
    "give schedule, the five fields of cron, retention, a whole number from 1 to 999, and s3, with endpoint, "
    "bucket, accessKey and secretKey, and if need be with folder, region and insecure, such as by: "
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


def read_backups(given: Mapping[str, Any]) -> Backups:
    """Reads the setting.

    Args:
        given: As the stack has it.

    Raises:
        ValueError: It is wrong.
        LookupError: There is something unknown in it.
        TypeError: It is no mapping.
    """
    rest = {name: value for name, value in given.items() if name != "s3"}
    flags = {_FLAGS[name]: text for name, text in _matching(rest, _ALLOWED).items()}
    store = _matching(given["s3"], _S3) if "s3" in given else {}
    if store and not {*store} >= _NEEDED:
        raise ValueError
    s3 = {f"etcd-s3-{_S3_FLAGS.get(name, name)}": text for name, text in store.items()}
    return Backups(flags, {"etcd-s3": "true", **s3} if s3 else {})


def _matching(given: Mapping[str, Any], allowed: Mapping[str, str]) -> dict[str, str]:
    if not all(isinstance(value, str | int) for value in given.values()):
        raise ValueError
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
    if not all(re.fullmatch(allowed[name], text, re.ASCII) for name, text in texts.items()):
        raise ValueError
    return texts


def settings_file(s3: Mapping[str, str]) -> str:
    """What k3s reads: secrets stand in a file, never in a process list. JSON is YAML."""
    switches = ("true", "false")
    lines = [f"{name}: {text if text in switches else json.dumps(text)}" for name, text in sorted(s3.items())]
    return "".join(f"{line}\n" for line in lines)
