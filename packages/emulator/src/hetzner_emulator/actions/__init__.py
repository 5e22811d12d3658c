"""Asynchronous changes: their effects, durations, and events."""
