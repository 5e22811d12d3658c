"""The version of all that this repository publishes. What else has it is made from here."""

VERSION = "0.1.0"
