"""Load balancers."""
