"""The emulated cloud for the conformance of ours."""

from __future__ import annotations

import sys
from pathlib import Path

# The emulated cloud is shared with the unit tests of ccm.hetzner.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "hetzner"))
