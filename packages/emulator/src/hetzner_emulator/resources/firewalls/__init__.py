"""Firewalls: which traffic the public interfaces of servers let through."""
