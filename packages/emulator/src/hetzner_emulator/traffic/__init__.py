"""Injected faults, the rate limit, and the request log."""
