"""``python -m sandbox COMMAND``: every command of a clone."""

import sys

from sandbox.dev import main

if __name__ == "__main__":
    sys.exit(main())
