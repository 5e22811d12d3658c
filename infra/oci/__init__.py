"""The CCM's container image, built from this tree without Docker and without a registry."""
