"""``./dev faults``: what goes wrong in this clone's cloud, on purpose."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox import daemon
from sandbox.api import Api
from sandbox.errors import SandboxError
from sandbox.overview import aligned
from sandbox.site import Site

HELP = "list, add and remove fault rules of the emulated cloud"
_HEADER = ("ID", "REQUESTS", "EFFECT", "APPLIED TO")
_NOT_SHOWN = frozenset({"id", "method", "path", "command", "seen", "hits", "message", "seed"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which rule."""
    parser.usage = "./dev faults [-h] [add FIELD=VALUE ... | remove ID ... | clear]"
    parser.add_argument(
        "what",
        nargs="?",
        choices=("add", "remove", "clear"),
        help="what to do with the rules (default: list them)",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="FIELD=VALUE | ID",
        help="the fields of a new rule, such as path=/servers code=locked times=2, or the IDs of rules "
        "to remove",
    )
    parser.epilog = (
        "docs/reference/sandbox-admin-api.md describes all fields. Rules are deleted when the sandbox stops."
    )


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Change the rules as asked, and print those that are in force."""
    daemon.require(site)
    api = Api(site.address)
    if arguments.what == "add":
        api.admin("POST", "/faults", rule(arguments.words))
    elif arguments.what == "remove":
        wanted = numbers(arguments.words)
        known = {each["id"] for each in api.admin("GET", "/faults")["faults"]}
        if missing := [str(identity) for identity in wanted if identity not in known]:
            raise SandboxError(f"unknown rule {', '.join(missing)}; './dev faults' lists the rules")
        for identity in wanted:
            api.admin("DELETE", f"/faults/{identity}")
    elif arguments.words:
        raise SandboxError(f"'clear' removes all rules and accepts no arguments; omit {arguments.words[0]!r}")
    elif arguments.what == "clear":
        api.admin("DELETE", "/faults")
    print(listing(api.admin("GET", "/faults")["faults"]))
    return 0


def rule(words: Sequence[str]) -> dict[str, Any]:
    """A rule from words such as ``code=locked`` and ``times=2``; the cloud judges fields and values."""
    fields: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in fields:
            why = f"{name} occurs twice" if equals else f"{word!r} isn't FIELD=VALUE"
            raise SandboxError(f"{why}; e.g. './dev faults add path=/servers code=locked times=2'")
        fields[name] = _value(value)
    if not fields:
        raise SandboxError("a rule needs at least one field; e.g. 'add path=/servers code=locked'")
    return fields


def _value(text: str) -> Any:
    """Numbers, true and false as in JSON; everything else is text.

    ``NaN`` and ``1e999`` are text too: Python reads numbers in them that JSON can't say.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value if isinstance(value, bool | int | float) else text


def numbers(words: Sequence[str]) -> list[int]:
    """IDs of rules, each once."""
    wrong = [word for word in words if not (word.isascii() and word.isdigit())]
    if wrong or not words:
        what = f"{wrong[0]!r} isn't an ID" if wrong else "an ID is missing"
        raise SandboxError(
            f"{what}; './dev faults' lists the rules with their IDs; './dev faults clear' removes all rules"
        )
    return list(dict.fromkeys(map(int, words)))


def listing(rules: Sequence[Mapping[str, Any]]) -> str:
    """The rules as a table."""
    if not rules:
        return "no fault rules"
    return aligned([_HEADER, *(_row(each) for each in rules)])


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    what = f"action {one['command']}" if one["command"] else f"{one['method']} {one['path']}"
    effects = [
        name if value is True else f"{name} {value}"
        for name, value in one.items()
        if name not in _NOT_SHOWN and value and (name, value) != ("probability", 1.0)
    ]
    return str(one["id"]), what, ", ".join(effects) or "error", f"{one['hits']} of {one['seen']}"
