"""SSH keys."""
