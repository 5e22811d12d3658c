"""Calls that Hetzner's API doesn't have, for tests and users, and the console page."""
