"""``python -m sandbox COMMAND``: every command of a clone."""

from __future__ import annotations

import sys

from sandbox.dev import main

if __name__ == "__main__":
    sys.exit(main())
