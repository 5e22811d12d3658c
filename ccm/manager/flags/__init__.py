"""The command line: how Kubernetes' components read one, and the flags that there are."""

from ccm.manager.flags.parser import Flag, ParsedFlags, parse_flags, usage
from ccm.manager.flags.table import FLAGS, NO_EFFECT

__all__ = ["FLAGS", "NO_EFFECT", "Flag", "ParsedFlags", "parse_flags", "usage"]
