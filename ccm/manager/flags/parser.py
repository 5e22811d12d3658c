"""Parses flags like Kubernetes' components (pflag), but finds all mistakes, not only the first.

The formats are ``--name=value``, ``--name value`` and, for flags of one letter, ``-v4``. A switch without a
value is true, and ``=false`` makes it false. ``_`` in names is the same as ``-``. Commas separate list items.
A repeated list flag adds items; for other repeated flags, the last value counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ccm.go import format_duration, parse_boolean, parse_duration

_INT32 = 2**31


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of flag. ``parse`` raises ValueError with a message; ``show`` formats a default."""

    name: str
    parse: Callable[[str], Any]
    empty: Any
    is_switch: bool = False  # true without a value
    adds: bool = False  # repeated flags add to each other (lists and maps) instead of replacing
    show: Callable[[Any], str] = str


def _int32(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} isn't a whole number") from None
    if not -_INT32 <= value < _INT32:
        raise ValueError(f"{text} doesn't fit in 32 bits")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} isn't a number") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _map(text: str) -> dict[str, str]:
    pairs = dict[str, str]()
    for item in _list(text):
        name, separator, value = item.partition("=")
        if not separator:
            raise ValueError(f"{item!r} is not of the form name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def _switch_map(text: str) -> dict[str, bool]:
    switches = dict[str, bool]()
    for name, value in _map(text).items():
        try:
            switches[name] = parse_boolean(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return switches


def _commas(items: Iterable[object]) -> str:
    return f"[{','.join(str(item) for item in items)}]"


BOOL = Kind("", parse_boolean, False, is_switch=True, show=lambda value: str(value).lower())
STRING = Kind("string", str, "", show=repr)
INT = Kind("int32", _int32, 0)
FLOAT = Kind("float32", _float, 0.0)
DURATION = Kind("duration", parse_duration, 0.0, show=format_duration)
STRINGS = Kind("strings", _list, (), adds=True, show=_commas)
INTS = Kind("int32Slice", lambda text: tuple(map(_int32, _list(text))), (), adds=True, show=_commas)
SWITCHES = Kind("mapStringBool", _switch_map, dict[str, bool](), adds=True, show=lambda _: "")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. ``group`` is its heading in ``--help``; ``short`` is a letter or empty."""

    name: str
    kind: Kind
    default: Any
    group: str
    help: str = ""
    short: str = ""


@dataclass(frozen=True, slots=True)
class ParsedFlags:
    """The command line: values of all flags, names of set flags, and a message for each mistake."""

    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(slots=True)
class _Parser:
    flags: Mapping[str, Flag]
    shorts: Mapping[str, Flag]
    values: dict[str, Any]
    given: set[str] = field(default_factory=set[str])
    problems: list[str] = field(default_factory=list[str])

    def run(self, arguments: Iterator[str]) -> None:
        for argument in arguments:
            if argument == "--":
                self.problems.extend(f"unexpected argument {rest!r}" for rest in arguments)
            elif argument.startswith("-") and argument != "-":
                self._flag(argument, arguments)
            else:
                self.problems.append(f"unexpected argument {argument!r}: only flags are accepted")

    def _flag(self, argument: str, following: Iterator[str]) -> None:
        letter = self.shorts.get(argument[1:2])
        if letter is not None and not letter.kind.is_switch and argument[2:3] not in ("", "="):
            self._set(letter, argument[2:])
            return
        name, separator, value = argument.partition("=")
        flag = self._find(name)
        if flag is None:
            self.problems.append(f"unknown flag: {name}")
            return
        if not separator:
            if flag.kind.is_switch:
                value = "true"
            else:
                following_value = next(following, None)
                if following_value is None:
                    self.problems.append(f"--{flag.name}: needs a value")
                    return
                value = following_value
        self._set(flag, value)

    def _find(self, name: str) -> Flag | None:
        if name.startswith("--"):
            return self.flags.get(name[2:].replace("_", "-"))
        return self.shorts.get(name[1:])

    def _set(self, flag: Flag, text: str) -> None:
        try:
            value = flag.kind.parse(text)
        except ValueError as error:
            self.problems.append(f"--{flag.name}: {error}")
            return
        if flag.kind.adds and flag.name in self.given:
            before = self.values[flag.name]
            value = before | value if isinstance(value, dict) else before + value
        self.values[flag.name] = value
        self.given.add(flag.name)


def parse_flags(flags: Sequence[Flag], arguments: Sequence[str]) -> ParsedFlags:
    """Parse a command line without the name of the command."""
    parser = _Parser(
        flags={flag.name: flag for flag in flags},
        shorts={flag.short: flag for flag in flags if flag.short},
        values={flag.name: flag.default for flag in flags},
    )
    parser.run(iter(arguments))
    return ParsedFlags(parser.values, frozenset(parser.given), tuple(parser.problems))


def usage(flags: Sequence[Flag]) -> str:
    """The output of ``--help``: all flags by group."""
    lines: list[str] = []
    for group in dict.fromkeys(flag.group for flag in flags):
        lines += ["", f"{group} flags:", ""]
        lines += [_usage_line(flag) for flag in flags if flag.group == group]
    return "\n".join(lines)


def _usage_line(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else "    "
    head = f"{short}--{flag.name} {flag.kind.name}".rstrip()
    default = flag.kind.show(flag.default)
    shown = f" (default {default})" if flag.default not in ("", (), False, 0, None) and default else ""
    return f"  {head:<60} {flag.help}{shown}"
