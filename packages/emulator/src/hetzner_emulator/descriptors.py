"""How many files a process may have open, of which each of its connections is one."""

from __future__ import annotations

import resource
import sys

GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""The soft limit that this process was given; machines begin with it, whatever it is raised to here."""


def allow_all() -> None:
    """Raise the soft limit of this process as far as it may.

    The soft limit is often 1024, for programs that call ``select``, which knows no higher descriptors; who
    serves many needs more. Children get the raised one. Where the hard limit is no number (macOS), the soft
    one stays.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def allowed() -> int:
    """The soft limit of this process now; where there is none, more than it can use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
