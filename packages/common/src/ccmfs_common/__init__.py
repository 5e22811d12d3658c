"""Helpers of several tools, which use only the standard library."""
