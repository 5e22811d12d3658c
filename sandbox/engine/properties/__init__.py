"""Values of resources: Pulumi's wire form, secrets, paths, times."""
