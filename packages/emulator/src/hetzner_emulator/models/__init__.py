"""The records that are kept of each resource, Hetzner's catalogs, and how the API shows both."""
