"""``python -m sandbox COMMAND``: every command in a clone; where the package was installed, ``serve``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run one command; returns its exit code."""
    in_a_clone = (ROOT / "Pulumi.yaml").is_file()
    return importlib.import_module("sandbox.dev" if in_a_clone else "sandbox.installed").main()


if __name__ == "__main__":
    sys.exit(main())
