"""How the engine introduces itself, so that nobody takes it for the Pulumi CLI."""

from __future__ import annotations

BANNER = "Embedded engine of ccm-from-scratch (this is not the Pulumi CLI)"
