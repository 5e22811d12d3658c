"""Entry of the zipapp."""

from __future__ import annotations

import sys

from sandbox.kubernetes.k3s.cli import main

sys.exit(main(sys.argv))
