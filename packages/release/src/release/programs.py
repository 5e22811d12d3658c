"""Programs that build parts of a release, with a time limit and without our secrets in their environment."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from image import tools

# By SUDO_UID git sees that root works for the one who owns the clone.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "SUDO_UID", "TMPDIR", "XDG_CACHE_HOME")


def run(
    what: str,
    command: Sequence[str],
    *,
    cwd: Path,
    settings: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> bytes:
    """Run a program without a shell and return its standard output; raises ToolError."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return tools.run(what, command, timeout, cwd=cwd, environment={**environment, **(settings or {})})
