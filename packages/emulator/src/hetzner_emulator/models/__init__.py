"""The records of each resource, Hetzner's catalogs, and how the API shows both."""
