"""The command line: how Kubernetes' components read one, and the flags that there are."""

from ccm.manager.flags.flag_table import FLAGS, NO_EFFECT
from ccm.manager.flags.parser import Flag, ParsedFlags, parse_flags, usage

__all__ = ["FLAGS", "NO_EFFECT", "Flag", "ParsedFlags", "parse_flags", "usage"]
