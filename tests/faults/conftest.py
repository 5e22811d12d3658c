"""The emulated cloud and the cluster in memory, for what goes wrong between them."""

from __future__ import annotations

import sys
from pathlib import Path

_UNIT = Path(__file__).parents[1] / "unit"
sys.path[:0] = [str(_UNIT / "hetzner"), str(_UNIT / "controllers")]
