"""What befalls requests: injected faults, the limit of an hour, the log."""
