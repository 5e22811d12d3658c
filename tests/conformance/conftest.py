"""The emulated cloud for the conformance of ours, and the harnesses."""

import sys
from pathlib import Path

# The emulated cloud is shared with the unit tests of ccm.hetzner.
_ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(_ROOT / "tests" / "unit" / "hetzner")]
