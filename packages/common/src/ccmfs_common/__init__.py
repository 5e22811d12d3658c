"""Helpers that several of the tools share; only the standard library is below them."""
