"""Floating IPs, public addresses that move from server to server."""
