"""The sandbox's Pulumi plugins."""
