"""The Hetzner Cloud API on a local port, faithful enough that official clients can't tell."""
