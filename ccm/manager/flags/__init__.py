"""The command line: a parser like that of Kubernetes' components, and the table of flags."""

from ccm.manager.flags.flag_table import FLAGS, NO_EFFECT
from ccm.manager.flags.parser import Flag, ParsedFlags, parse_flags, usage

__all__ = ["FLAGS", "NO_EFFECT", "Flag", "ParsedFlags", "parse_flags", "usage"]
