"""What the resources are described with: calls, operations, resources and catalogues."""
