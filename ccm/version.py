"""The version of this program; pyproject.toml repeats it."""

VERSION = "0.1.0"
