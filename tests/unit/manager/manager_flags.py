"""Command lines for tests of the manager."""

from ccm.manager.flags import FLAGS, ParsedFlags, parse_flags
from ccm.manager.options import Options


def parsed(*arguments: str) -> ParsedFlags:
    return parse_flags(FLAGS, ["--cloud-provider=fake", *arguments])


def options(*arguments: str) -> Options:
    return Options(parsed(*arguments))
