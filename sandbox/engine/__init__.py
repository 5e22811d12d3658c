"""A small Pulumi engine for places where the Pulumi CLI can't be installed.

It serves Pulumi's own gRPC protocols to the unmodified Python SDK, and keeps state in Pulumi's own
format, so that a genuine Pulumi CLI can carry on with a stack at any time.
"""

BANNER = "Embedded engine of ccm-from-scratch (this is not the Pulumi CLI)"
"""How the engine introduces itself, so that nobody takes it for the Pulumi CLI."""
