"""Entry of the zipapp."""

from __future__ import annotations

import contextlib
import sys

from sandbox.kubernetes.k3s.clients import become, words_of
from sandbox.kubernetes.k3s.errors import UsageError

with contextlib.suppress(UsageError):  # as every other, it is told by main
    become(words_of(sys.argv))

from sandbox.kubernetes.k3s.cli import main

sys.exit(main(sys.argv))
