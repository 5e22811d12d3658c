"""The description of resources: calls, operations, resources, and catalogs."""
