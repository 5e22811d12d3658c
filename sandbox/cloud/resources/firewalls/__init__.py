"""Firewalls, as records."""
