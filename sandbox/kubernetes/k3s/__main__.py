"""Entry of the zipapp."""

from __future__ import annotations

import sys

from sandbox.kubernetes.k3s.clients import become, words_of
from sandbox.kubernetes.k3s.errors import UsageError

try:
    become(words_of(sys.argv))
except UsageError as error:
    sys.exit(f"k3s: {error}")

from sandbox.kubernetes.k3s.cli import main

sys.exit(main(sys.argv))
