"""Pulumi's CLI, found or built, and the states that it writes."""
