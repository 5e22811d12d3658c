"""Volumes, disks that outlive servers."""
