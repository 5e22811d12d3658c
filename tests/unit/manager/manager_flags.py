"""Command lines for tests of the manager."""

from __future__ import annotations

from ccm.manager.flag_table import FLAGS
from ccm.manager.flags import ParsedFlags, parse_flags
from ccm.manager.options import Options


def parsed(*arguments: str) -> ParsedFlags:
    return parse_flags(FLAGS, ["--cloud-provider=fake", *arguments])


def options(*arguments: str) -> Options:
    return Options(parsed(*arguments))
