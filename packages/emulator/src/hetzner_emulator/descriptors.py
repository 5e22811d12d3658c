"""The limit of open files of a process; each connection is one."""

import resource

GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""The soft limit for open files when this process starts. Machines get this limit, even after
:func:`allow_all` raises the limit of this process."""


def allow_all() -> None:
    """Raise the soft limit of this process to the hard limit; children inherit it.

    The soft limit is often 1024, for programs that call ``select``. If the hard limit is infinite (macOS),
    the soft limit stays.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
